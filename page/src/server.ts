// The requests to the server. It alone knows paths; every refusal is a `Refusal` with the server's sentence.
import { effect, signal } from "@preact/signals";
import { type Answer, Closed, type Source, is_cockpit, way } from "./way.ts";
import type {
  About, Action, Alarm, AlarmSettings, ConfigText, ConfigVerdict, Drive, Event, EventPage, Forecasts, Foreign, Job,
  Limits, LimitsKnown, Login, LoginWays, Message, Outcome, PlanOffer, Reports, Routine, RoutineSettings, SparePool,
  Spoken, State, SweepPrice, Who,
} from "./types.ts";

/** Beside the page, which a reverse proxy may show below another path. Inside Cockpit the page lies elsewhere. */
const BASE = is_cockpit ? "/api/v1" : new URL("api/v1", document.baseURI).pathname;
/** A request without an answer for so long is given up. */
const PATIENCE_MS = 30_000;
/** What measures or plans takes its time. */
const MEASURES_MS = 90_000;

/** Requests that change nothing, although they are no GET. After a silence the reader may simply try again. */
const QUESTIONS = ["/plans", "/config/check", "/forecast", "/session"];

/**
 * A refusal of the server, or the lack of an answer (`status` 0). Kinds of a lack: `silent` for a question, `silent_order` for an
 * order that may have been carried out, `no_access` and `no_daemon` if the server was not reached.
 */
export class Refusal extends Error {
  readonly status: number;
  readonly kind: string;
  /** The message by its code and values, if it has them. */
  readonly said: Spoken | null;
  constructor(status: number, kind: string, message: string, said: Spoken | null = null) {
    super(message);
    this.status = status;
    this.kind = kind;
    this.said = said;
  }
}

/** The reader, as the server knows him; null: not yet asked, or to be asked to log in. */
export const who = signal<Who | null>(null);

/** The last value of `who` that was not null. The page under the login is still this reader's. */
export const known = signal<Who | null>(null);
effect(() => {
  if (who.value) known.value = who.value;
});

async function ask<T>(method: string, path: string, body?: unknown, patience_ms = PATIENCE_MS): Promise<T> {
  const csrf = who.value?.csrf;
  try {
    return await ask_once<T>(method, path, body, patience_ms);
  } catch (reason) {
    // A login in another tab has begun another session, whose value this tab does not know.
    if (method === "GET" || !csrf || !(reason instanceof Refusal) || reason.status !== 403) throw reason;
    await session();
    if (who.value?.csrf === csrf) throw reason;
    return ask_once<T>(method, path, body, patience_ms);
  }
}

/** Sends one request. `is_unattended`: the page asks without the reader, so the request does not keep the session alive. */
async function ask_once<T>(method: string, path: string, body: unknown, patience_ms: number, is_unattended = false): Promise<T> {
  const headers: Record<string, string> = { accept: "application/json" };
  if (is_unattended) headers["x-stria-unattended"] = "1";
  if (body !== undefined) headers["content-type"] = "application/json";
  if (method !== "GET" && who.value?.csrf) headers["x-stria-csrf"] = who.value.csrf;
  let answer: Answer;
  try {
    answer = await way.ask(method, BASE + path, headers, body === undefined ? undefined : JSON.stringify(body), patience_ms);
  } catch (reason) {
    if (reason instanceof Closed) throw new Refusal(0, reason.kind, "");
    throw new Refusal(0, method === "GET" || QUESTIONS.includes(path) ? "silent" : "silent_order", "");
  }
  const { text } = answer;
  const parsed = parse(text);
  if (answer.status >= 200 && answer.status < 300) return parsed as T;
  const error = (parsed as { error?: { kind?: string; message?: string; said?: Spoken } } | null)?.error;
  if (answer.status === 401) who.value = null;
  throw new Refusal(answer.status, error?.kind ?? "failed", error?.message ?? (text.slice(0, 300) || `status ${answer.status}`), error?.said);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const query = (values: Record<string, string | number | undefined>) => {
  const given = Object.entries(values).filter((entry): entry is [string, string | number] => entry[1] !== undefined && entry[1] !== "");
  return given.length === 0 ? "" : `?${new URLSearchParams(given.map(([key, value]) => [key, String(value)]))}`;
};

/** A question that the page asks for the reader, or (`is_unattended`) without. */
const look = <T>(path: string, is_unattended: boolean) => ask_once<T>("GET", path, undefined, PATIENCE_MS, is_unattended);

export const about = (is_unattended: boolean) => look<About>("", is_unattended);
/** Asks for the reader's session, and stores it in `who`. `is_unattended`: as for `ask_once`. */
export const session = async (is_unattended = false) =>
  (who.value = await look<Who>("/session", is_unattended));
export const login_ways = () => ask<LoginWays>("GET", "/login");
export const log_in = async (proof: Login) => (who.value = await ask<Who>("POST", "/session", proof));
export const log_out = async () => {
  await ask("DELETE", "/session");
  who.value = null;
};
export const drives = (refresh: boolean, is_unattended: boolean) =>
  look<Drive[]>(`/drives${query({ refresh: refresh ? "true" : undefined })}`, is_unattended);
export const spares = (is_unattended: boolean) => look<SparePool>("/spares", is_unattended);
export const foreign = () => ask<Foreign>("GET", "/foreign");
export const plan = (action: Action) => ask<PlanOffer>("POST", "/plans", action);
export const carry_out = (token: string, confirm?: string) => ask<Job>("POST", "/jobs", { token, confirm: confirm ?? null });
export const cancel = (job: number) => ask<Message>("DELETE", `/jobs/${job}`);
export const act = (action: Action) => ask<Job>("POST", "/actions", action);
type Wanted = { array?: string; kind?: string; text?: string; before_ms?: number; limit?: number };
export const events = (wanted: Wanted, is_unattended: boolean) => look<EventPage>(`/events${query(wanted)}`, is_unattended);
export const audit = (limit: number, is_unattended: boolean) => look<EventPage>(`/audit${query({ limit })}`, is_unattended);
export const alarms = () => ask<Alarm[]>("GET", "/alarms");
/** Says that the reader knows of an open alarm, or takes that back. */
export const acknowledge = ({ event, array, component }: Alarm, undo: boolean, note: string) =>
  ask<Alarm>("POST", "/alarms/acknowledge", { event, array, component: component ?? null, undo, ...(note !== "" && { note }) });
export const test_alarms = () => ask<Outcome[]>("POST", "/alarms/test");
export const config = () => ask<ConfigText>("GET", "/config");
export const check_config = (config: ConfigText) => ask<ConfigVerdict>("POST", "/config/check", config);
export const save_config = (config: ConfigText) => ask<Message>("PUT", "/config", config);

export const limits = (array: string) => ask<LimitsKnown>("GET", `/arrays/${encodeURIComponent(array)}/limits`);
export const measure_limits = (array: string) => ask<Limits>("POST", `/arrays/${encodeURIComponent(array)}/limits`, undefined, MEASURES_MS);
export const measure_price = (array: string) => ask<SweepPrice>("POST", `/arrays/${encodeURIComponent(array)}/price`, undefined, MEASURES_MS);
export const forecast = (wish: { drives: string[]; spares: number; like?: string; purpose?: string }) => ask<Forecasts>("POST", "/forecast", wish, MEASURES_MS);
export const routine = () => ask<Routine[]>("GET", "/routine");
export const routine_settings = () => ask<RoutineSettings>("GET", "/routine/settings");
export const set_routine = (settings: RoutineSettings) => ask<Message>("PUT", "/routine/settings", settings);
export const alarm_settings = () => ask<AlarmSettings>("GET", "/alarms/settings");
export const set_alarms = (settings: AlarmSettings) => ask<Message>("PUT", "/alarms/settings", settings);

export const reports = () => ask<Reports>("GET", "/reports");
export const report_address = (name: string) => `${BASE}/reports/${encodeURIComponent(name)}`;

/** What the stream reports. */
export type Listener = {
  state(state: State): void;
  beat(time_ms: number): void;
  event(event: Event): void;
  reset(): void;
  /** The connection broke. The browser connects again by itself unless it was refused. */
  broken(refused: boolean): void;
  /** The stream is open, at first and after each break: the server ends it when the reader's role changes. */
  opened(): void;
};

export function listen(listener: Listener): Source {
  return way.listen(`${BASE}/stream`, {
    message(name, text) {
      const data = parse(text);
      if (name === "state") listener.state(data as State);
      else if (name === "beat") listener.beat((data as { time_ms: number }).time_ms);
      else if (name === "event") listener.event(data as Event);
      else if (name === "reset") listener.reset();
    },
    broken: (refused) => listener.broken(refused),
    opened: () => listener.opened(),
  });
}
