// The server's sentences in the reader's language. Each comes with a code and values; a code that this page does not know, and a cause that an
// operating system or a drive gave, stand in the server's English.
import { bytes, duration, listed } from "./format.ts";
import { sweep_word } from "./parts.tsx";
import { parts, sentences } from "./sentences.ts";
import type { Spoken } from "./types.ts";
import { type Values, fill, language, t } from "./words.ts";

type Part = keyof typeof parts;
const part = (key: Part, values: Values = {}) => fill(parts[key][language.value === "ru" ? 1 : 0], values);

type Settings = Extract<Spoken, { code: "set-array" }>["values"]["settings"];
type Wrong = Extract<Spoken, { code: "sweep-found-wrong" }>["values"]["wrong"];
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

/** Values of a kind of their own, by their names, which the server's declarations share. */
const SPECIAL: Record<string, (value: never) => string> = {
  peer: (value: Peer) => part(PEERS[value]),
  sweep: (value: string) => sweep_word(value),
  settings: settings_words,
  title: (value: Spoken) => worded(value) ?? "",
  wrong: (value: Wrong) => listed(value.map(({ drive, sectors }) => `${drive} (${sectors})`)),
  channels: (value: string[]) => (value.length === 0 ? part("no_channel") : part("by_channels", { names: value.join(", ") })),
  component: (value: string | null) => (value === null ? "" : ` (${value})`),
  detail: (value: string | null) => (value === null ? "" : `: ${value}`),
  ms: (value: number) => (value < 1000 ? t("millis", { n: value }) : duration(value / 1000, true)),
};

function value_of(name: string, value: unknown): string | number {
  const special = SPECIAL[name] as ((value: unknown) => string) | undefined;
  if (special) return special(value);
  if (Array.isArray(value)) return listed(value.map(String));
  if (typeof value === "number") return name.endsWith("_bytes") ? bytes(value) : value;
  return String(value);
}

/** A sentence in German or Russian; null: the server's English is the one to show. */
export function worded(said: Spoken | null | undefined): string | null {
  // A newer server may know more codes.
  const words = said && language.value !== "en" && Object.hasOwn(sentences, said.code) ? sentences[said.code] : null;
  if (!words || !said) return null;
  const values = Object.fromEntries(Object.entries(said.values).map(([name, value]) => [name, value_of(name, value)]));
  return fill(words[language.value === "ru" ? 1 : 0], values);
}

/** The server's sentence, marked as English where it is. */
export function Said({ text, said }: { text: string; said: Spoken | null | undefined }) {
  const words = worded(said);
  return words === null ? <span lang="en">{text}</span> : <>{words}</>;
}
