// The names of the API's types. `contract.d.ts` is generated from docs/openapi.json (`npm run types`).
import type { components, operations } from "./contract.d.ts";

type Schemas = components["schemas"];
/** What the server answers has every field: those that requests may leave out, too. */
type Full<T> = T extends (infer U)[] ? Full<U>[] : T extends object ? { [K in keyof T]-?: Full<T[K]> } : T;
export type Action = Schemas["Action"];
export type About = Schemas["About"];
export type ArrayEntry = Full<Schemas["ArrayEntry"]>;
/** `stria daemon` with schedules remembers scrubs over restarts. */
export type Scrubs = { last_scrub?: { ended_s: number; mismatch_sectors: number; unchecked_sectors: number; repaired: boolean } | null; next_scrub_s?: number | null };
/** What the daemon remembers of the drives that empty slots had; a new one remembers nothing. */
export type ArrayView = Omit<Full<Schemas["ArrayView"]>, "last_drives" | "spans"> & { last_drives?: Schemas["ArrayView"]["last_drives"]; spans: ArrayView[] };
export type SparePool = Schemas["SparePool"];
export type Foreign = Schemas["Foreign"];
export type ForeignArray = Schemas["ForeignArray"];
export type Volume = Schemas["FirmwareVolume"];
export type Drive = Schemas["DrivePage"];
export type DriveHealth = Schemas["DriveHealth"];
export type Event = Schemas["EventView"];
/** A sentence of the server: its code, and the values in it. */
export type Spoken = Schemas["PlanSentence"] | Schemas["HealthSentence"] | Schemas["EventSentence"] | Schemas["OrderSentence"] | Schemas["AlarmSentence"];
export type EventPage = Schemas["EventPage"];
export type Job = Schemas["Job"];
export type Login = { token: string } | { user: string; password: string };
export type LoginWays = operations["get_login"]["responses"]["200"]["content"]["application/json"];
export type Matter = Schemas["MatterView"];
export type MatterKind = Schemas["MatterKind"];
export type MemberRate = Schemas["MemberRate"];
export type MemberView = Full<Schemas["MemberView"]>;
export type Plan = Schemas["Plan"];
export type PlanOffer = Schemas["PlanOffer"];
export type AlarmSettings = Schemas["AlarmSettings"];
export type PlanTime = Schemas["PlanTime"];
export type Rates = Schemas["Rates"];
export type State = Full<Schemas["State"]>;
export type Task = Schemas["Task"];
export type Who = Schemas["Who"];
export type ConfigText = Schemas["ConfigText"];
export type ConfigVerdict = Schemas["ConfigVerdict"];
export type Message = Schemas["Message"];
export type Alarm = Schemas["StandingView"];
export type Outcome = Schemas["Outcome"];
export type Limits = Schemas["Limits"];
export type LimitsKnown = Schemas["LimitsKnown"];
export type MemberLimit = Schemas["MemberLimit"];
export type SweepPrice = Schemas["SweepPrice"];
export type Forecasts = Schemas["Forecasts"];
export type LevelForecast = Schemas["LevelForecast"];
export type Routine = Schemas["RoutineView"];
export type RoutineSettings = Schemas["RoutineSettings"];
export type Reports = Schemas["Reports"];
export type Seat = Schemas["Seat"];
