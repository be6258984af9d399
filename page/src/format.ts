// Figures, sizes and times as the reader's language and zone write them.
import { effect, signal } from "@preact/signals";
import { locale, t } from "./words.ts";

const number = (value: number, digits = 0) =>
  new Intl.NumberFormat(locale.value, { minimumFractionDigits: 0, maximumFractionDigits: digits }).format(value);

/** No minus before a zero. */
export const count = (value: number) => number(value || 0);

/** A figure and its unit, between which no line ends. */
export const with_unit = (figure: string | number, unit: string) => `${figure}\u00a0${unit}`;

/** A size in units of 1024, as the command line writes it. */
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  // No minus before a zero.
  return with_unit(number(value || 0, value < 100 ? 1 : 0), units[unit] as string);
}

/** Several names in a sentence. */
export const listed = (names: string[]) => new Intl.ListFormat(locale.value, { type: "conjunction" }).format(names);

export const rate = (bytes_per_s: number) => `${bytes(bytes_per_s)}/s`;

/** A figure with one decimal, as the reader writes it. */
export const decimal = (value: number) => value.toLocaleString(locale.value, { maximumFractionDigits: 1 });

export function percent(part: number): string {
  const digits = part > 0 && part < 0.1 ? 1 : 0;
  return new Intl.NumberFormat(locale.value, { style: "percent", maximumFractionDigits: digits }).format(part);
}

/** The share that is done: never 100 % before the end. */
export const progress = (done: number, total: number) => (total === 0 ? 0 : Math.min(done >= total ? 1 : 0.999, done / total));

export function micros(us: number): string {
  if (us < 1000) return t("micros", { n: number(us) });
  return us < 1e6 ? t("millis", { n: number(us / 1000, us < 1e4 ? 1 : 0) }) : t("seconds", { n: number(us / 1e6, 1) });
}

/** A time of day, with the date if it is not today's. */
export function time(ms: number): string {
  const same_day = new Date(ms).toDateString() === new Date().toDateString();
  const near = Math.abs(Date.now() - ms) < 300 * 86_400_000;
  const options: Intl.DateTimeFormatOptions = same_day
    ? { hour: "2-digit", minute: "2-digit" }
    : { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", ...(near ? {} : { year: "numeric" }) };
  return new Intl.DateTimeFormat(locale.value, options).format(ms);
}

/** A time zone, with its name at present: the reader's, or another by its place. */
export function zone(place?: string): string {
  try {
    const format = new Intl.DateTimeFormat(locale.value, { timeZone: place, timeZoneName: "short" });
    const shown = place ?? format.resolvedOptions().timeZone;
    const name = format.formatToParts().find((part) => part.type === "timeZoneName")?.value;
    return name === undefined || name === shown ? shown : `${shown} (${name})`;
  } catch {
    // The browser does not know the server's zone.
    return place ?? "";
  }
}

export const full_time = (ms: number) =>
  new Intl.DateTimeFormat(locale.value, { dateStyle: "full", timeStyle: "long" }).format(ms);

/** `is_after`: it stands after a preposition, such as "vor", "in" or "nach" in German. */
export function duration(seconds: number, is_after = false): string {
  const minutes = Math.round(seconds / 60);
  if (seconds < 60) return t("seconds", { n: Math.max(0, Math.round(seconds)) });
  if (minutes < 60) return t("minutes", { n: minutes });
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return t("hours", { h: hours, m: minutes % 60 });
  return t(is_after ? "days_after" : "days", { n: Math.round(hours / 24) });
}

/** The present, to the second: what counts time reads it. */
export const now = signal(Date.now());
effect(() => {
  const timer = setInterval(() => (now.value = Date.now()), 1000);
  return () => clearInterval(timer);
});

/** The name of a level. */
export const level_name = (level: string) => (level === "jbod" ? "JBOD" : t("raid", { level }));
