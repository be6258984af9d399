// The server's sentences in the reader's language. Each comes with a code and values; a code that this page does not know, and a cause that an
// operating system or a drive gave, stand in the server's English.
import { bytes, count, duration, listed, micros } from "./format.ts";
import { Told, channel_word, role_word, sweep_word } from "./parts.tsx";
import { alarms, parts, sentences } from "./sentences.ts";
import type { Spoken } from "./types.ts";
import { type Values, english, fill, language, t } from "./words.ts";

type Part = keyof typeof parts;
const part = (key: Part, values: Values = {}) => fill(parts[key][language.value === "ru" ? 1 : 0], values);

type Settings = Extract<Spoken, { code: "set-array" }>["values"]["settings"];
type Bounds = Extract<Spoken, { code: "order-speed" }>["values"]["bounds"];
type Wrong = Extract<Spoken, { code: "sweep-found-wrong" }>["values"]["wrong"];
type Lacks = Extract<Spoken, { code: "waits-for-all" }>["values"]["lacks"];
type Then = Extract<Spoken, { code: "alarm-came-degraded" }>["values"]["then"];
type Slow = Extract<Spoken, { code: "alarm-slow-member" }>["values"]["slow"];
type Findings = Extract<Spoken, { code: "alarm-drive-health" }>["values"]["findings"];
type Dropped = Extract<Spoken, { code: "members-dropped" }>["values"]["dropped"];
type Lacking = Extract<Spoken, { code: "starts-with-spare" }>["values"]["lacking"];
type Peer = Extract<Spoken, { code: "ssd-beside" }>["values"]["peer"];

const PEERS: Record<Peer, Part> = { ssd: "beside_ssd", hdd: "beside_hdd", file: "beside_file" };
const WRITES: Record<NonNullable<Settings["write"]>, Part> = { through: "write_through", safe: "write_safe", back: "write_back" };

function settings_words(of: Settings): string {
  const switched = (value: boolean | null | undefined, on: Part, off: Part) => (typeof value === "boolean" ? [part(value ? on : off)] : []);
  return [
    ...(of.write ? [part(WRITES[of.write])] : []),
    ...switched(of.drive_caches, "caches_on", "caches_off"),
    ...switched(of.read_only, "read_only_on", "read_only_off"),
    ...(of.bitmap ? [part("bitmap", { choice: of.bitmap })] : []),
    ...(of.log ? [part("log", { choice: of.log })] : []),
    ...switched(of.integrity, "checksums_on", "checksums_off"),
  ].join(", ");
}

const is_alarm = (name: string): name is keyof typeof alarms => Object.hasOwn(alarms, name);

/** The name of an alarm in the reader's language; one that this page does not know stays as it is. */
export function alarm_word(name: string): string {
  if (language.value === "en") return name;
  const percent = /^Rebuild(\d+)$/.exec(name)?.[1];
  if (percent !== undefined) return part("alarm_percent", { n: Number(percent) });
  return is_alarm(name) ? alarms[name][language.value === "ru" ? 1 : 0] : name;
}

const VIA: Record<string, Part> = { token: "by_token", certificate: "by_certificate", "session of": "by_session" };

/**
 * Who gave an order, as `Caller::shown` in rest/auth.rs says it: "root (user 0), process 7", "token ci from 10.0.0.1"; or a client:
 * "process 7 of user 0".
 */
export function by_words(by: string): string {
  if (language.value === "en") return by;
  const [, via, name, from] = /^(token|certificate|session of) (.+) from (.+)$/s.exec(by) ?? [];
  if (via !== undefined && name !== undefined && from !== undefined) return part(VIA[via] as Part, { name: by_words(name), from: by_words(from) });
  const [, user, process] = /^(.+), process (\d+)$/s.exec(by) ?? [];
  if (user !== undefined && process !== undefined) return part("by_process", { user: by_words(user), id: process });
  const [, client, owner] = /^process (\d+) of user (\d+)$/.exec(by) ?? [];
  if (client !== undefined && owner !== undefined) return part("by_process", { user: part("by_user", { id: owner }), id: client });
  // A number of the system is no quantity: it has no separators.
  return by.replace(/^user (\d+)$|(?<=\()user (\d+)(?=\)$)/, (_, alone?: string, behind?: string) => part("by_user", { id: alone ?? behind ?? "" }));
}

/** What lies on a drive, in the server's words, but for the most usual: it is of an array. */
function carried(what: string): string {
  const array = /^a member of array "(.*)"$/s.exec(what)?.[1];
  return array === undefined ? english(what) : part("carries_member", { array });
}

function bounds_words(of: Bounds): string {
  const latency = typeof of.bound_us === "number" ? part("latency_bound", { percentile: of.percentile ?? "", bound: of.bound_us }) : part("no_latency_bound");
  return [
    ...(typeof of.min_bytes_per_s === "number" ? [of.min_bytes_per_s === 0 ? part("no_minimum") : part("at_least", { rate: bytes(of.min_bytes_per_s) })] : []),
    ...(typeof of.max_bytes_per_s === "number" ? [of.max_bytes_per_s === 0 ? part("no_maximum") : part("at_most", { rate: bytes(of.max_bytes_per_s) })] : []),
    ...(of.percentile ? [latency] : []),
  ].join(", ");
}

/** All of these in the reader's language; null: one of them has no words here. */
export function all_worded(said: readonly Spoken[] | null | undefined): string | null {
  const words = said?.map((one) => worded(one)) ?? [];
  return words.length > 0 && words.every((word) => word !== null) ? words.join("; ") : null;
}

/** A cause by its own sentence beside it, else in the server's words. */
const caused = (text: string, { cause, ends }: Others) => worded(cause) ?? all_worded(ends) ?? english(text);

function then_words({ losses_survived }: Then): string {
  if (typeof losses_survived !== "number") return part("then_failed");
  return losses_survived === 0 ? part("then_bare") : part("then_survives", { n: losses_survived });
}

function lacking_words({ missing, filling }: Lacking): string {
  const words = (slots: number[], key: Part) => (slots.length === 0 ? [] : [part(key, { n: slots.length, slots: slots.join(", ") })]);
  return [...words(missing, "slots_missing"), ...words(filling, "slots_filling")].join(", ");
}

/** The values beside one, which may hold the sentence of its text. */
type Others = { cause?: Spoken | null; causes?: Spoken[] | null; ends?: Spoken[] | null };

/** Values of a kind of their own, by their names, which the server's declarations share. */
const SPECIAL: Record<string, (value: never, others: Others) => string> = {
  peer: (value: Peer) => part(PEERS[value]),
  sweep: (value: string) => sweep_word(value),
  settings: settings_words,
  title: (value: Spoken) => worded(value) ?? "",
  order: (value: Spoken) => worded(value) ?? "",
  alarm: alarm_word,
  by: by_words,
  of: (value: string | null) => (value === null ? part("an_array") : part("the_array", { array: value })),
  force: (value: boolean) => (value ? part("by_force") : ""),
  clients_or_not: (value: boolean) => (value ? part("clients_or_not") : ""),
  span: (value: string | null) => (value === null ? "" : part("to_span", { span: value })),
  bounds: bounds_words,
  // Exact: a drive that lost its last sectors has the same size in rounded units.
  before_bytes: count,
  now_bytes: count,
  left_bytes: count,
  length: (value: number | null) => (value === null ? part("whole_length") : bytes(value)),
  carries: (value: string[]) => value.map(carried).join(", "),
  clients: (value: string[]) => listed(value.map(by_words)),
  status: String,
  wrong: (value: Wrong) => listed(value.map(({ drive, sectors }) => `${drive} (${sectors})`)),
  channels: (value: string[]) => (value.length === 0 ? part("no_channel") : part("by_channels", { names: value.map(channel_word).join(", ") })),
  component: (value: string | null) => (value === null ? "" : ` (${value})`),
  detail: (value: string | null, others: Others) => (value === null ? "" : `: ${caused(value, others)}`),
  reason: caused,
  advice: (value: string, { causes }: Others) => all_worded(causes) ?? english(value),
  survives: (value: string) => (value === "none" ? part("survives_none") : part("survives", { n: Number(value) })),
  outcome: caused,
  member_role: (value: string) => role_word(value),
  sweep_kind: (value: string) => sweep_word(value),
  in_kernel: (value: string | null) => (value === null ? "" : part("in_kernel", { name: value })),
  asked: (value: string[]) => (value.length === 0 ? "" : part("asked", { names: value.join(", ") })),
  task: (value: string) => sweep_word(value),
  known: (value: string[]) => (value.length === 0 ? part("no_array_known") : listed(value)),
  members: (value: string[]) => (value.length === 0 ? part("no_drive_used") : listed(value)),
  lacks: (value: Lacks) => value.map(({ array, slots }) => part("lacks", { array, slots: slots.join(", "), n: slots.length })).join("; "),
  lacking: lacking_words,
  left: (value: number) => (value === 0 ? part("left_none") : part("left", { n: value })),
  records: (value: number) => part("records", { n: value }),
  updates: (value: number) => part("updates", { n: value }),
  dropped: (value: Dropped) => value.map(({ drive, reason, cause }) => `${drive}: ${worded(cause) ?? english(reason)}`).join("; "),
  lasting_s: (value: number) => duration(value, true),
  then: then_words,
  slow: ({ own_us, others_us, tail }: Slow) => part(tail ? "slow_sometimes" : "slow_usually", { own: micros(own_us), others: micros(others_us) }),
  findings: (value: Findings) => value.map(({ sentence, said }) => worded(said) ?? english(sentence)).join(" "),
  ms: (value: number) => (value < 1000 ? t("millis", { n: value }) : duration(value / 1000, true)),
};

/** Values that are the server's words in any case. */
const IN_ENGLISH = new Set(["contents", "excess", "fault", "state", "text", "user", "users"]);

function value_of(name: string, value: unknown, others: Others): string | number {
  const special = SPECIAL[name] as ((value: unknown, others: Others) => string) | undefined;
  if (special) return special(value, others);
  if (IN_ENGLISH.has(name)) return english(Array.isArray(value) ? value.join(", ") : String(value));
  if (Array.isArray(value)) return listed(value.map(String));
  if (typeof value === "number") return name.endsWith("_bytes") ? bytes(value) : value;
  return String(value);
}

/** A sentence in German or Russian; null: the server's English is the one to show. `cause`: the sentence of its reason, if it stands beside. */
export function worded(said: Spoken | null | undefined, cause?: Spoken | null): string | null {
  // A newer server may know more codes.
  const words = said && language.value !== "en" && Object.hasOwn(sentences, said.code) ? sentences[said.code] : null;
  if (!words || !said) return null;
  const others = cause ? { cause } : (said.values as Others);
  const values = Object.fromEntries(Object.entries(said.values).map(([name, value]) => [name, value_of(name, value, others)]));
  return fill(words[language.value === "ru" ? 1 : 0], values);
}

/** The server's sentence, marked as English where it is. */
export function Said({ text, said, cause }: { text: string; said: Spoken | null | undefined; cause?: Spoken | null }) {
  const words = worded(said, cause);
  return words === null ? <span lang="en"><Told text={text} /></span> : <Told text={words} />;
}
