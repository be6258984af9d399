// The choice of language, and how a sentence of the catalogue becomes text.
import { computed, signal } from "@preact/signals";
import { catalogue } from "./catalogue.ts";

export const LANGUAGES = { en: "English", de: "Deutsch", ru: "Русский" } as const;
export type Language = keyof typeof LANGUAGES;
export type Key = keyof typeof catalogue;
export type Values = Record<string, string | number>;

const ORDER: Language[] = ["en", "de", "ru"];
const is_language = (text: unknown): text is Language => typeof text === "string" && text in LANGUAGES;

/** What the reader chose; null: as the browser asks. */
export const chosen = signal<Language | null>(remembered("language", is_language));
export const language = computed<Language>(
  () => chosen.value ?? navigator.languages.map((tag) => tag.slice(0, 2)).find(is_language) ?? "en",
);
/** The language with the reader's region, which decides how times and figures are written. */
export const locale = computed(() => navigator.languages.find((tag) => tag.slice(0, 2) === language.value) ?? language.value);

/** A value of this browser's memory, if it is there and `is_valid`. */
export function remembered<T extends string>(name: string, is_valid: (text: unknown) => text is T): T | null {
  try {
    const value = localStorage.getItem(`stria-${name}`);
    return is_valid(value) ? value : null;
  } catch {
    return null;
  }
}

export function remember(name: string, value: string | null) {
  try {
    if (value === null) localStorage.removeItem(`stria-${name}`);
    else localStorage.setItem(`stria-${name}`, value);
  } catch {
    // A browser that refuses memory asks again next time.
  }
}

/**
 * A sentence of the catalogue in the reader's language. `{name}` stands for a value, `{n|drive|drives}` for the form that
 * the number asks for: one, other; in Russian one, few, many; `#` in a form is the number.
 */
export function t(key: Key, values: Values = {}): string {
  return fill(catalogue[key][ORDER.indexOf(language.value)] as string, values);
}

/** English in a sentence of another language, between two characters of private use: `Told` marks it for screen readers. */
export const english = (text: string) => (language.value === "en" || text === "" ? text : `\uE000${unmarked(text)}\uE001`);
export const unmarked = (text: string) => text.replace(/[\uE000\uE001]/g, "");

/** Text as one word of a shell, quoted if it would not be read as it is: `shell_word` of the server. */
const shell_word = (text: string) => (/^[A-Za-z0-9/._+:@%=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** The space between a figure and its unit, in a sentence. */
const BEFORE_UNIT = /(?<=[}\d]) (?=(?:%|°C|s|ms|µs|h|min|с|мс|мкс|ч|мин)(?!\p{L}))/gu;

/** A sentence with its values. In a command, between backticks, each is a word of a shell; `words` are several already. */
export function fill(sentence: string, values: Values): string {
  // No line ends between a figure and its unit.
  return sentence.replace(BEFORE_UNIT, "\u00a0").replace(/\{(\w+)(?:\|([^}]*))?\}/g, (whole, name: string, forms: string | undefined, at: number) => {
    const value = values[name];
    if (value === undefined) return whole;
    const in_command = sentence.slice(0, at).split("`").length % 2 === 0;
    if (in_command) return name === "words" ? String(value) : shell_word(String(value));
    if (forms === undefined) return typeof value === "number" ? value.toLocaleString(locale.value) : value;
    const variants = forms.split("|");
    const category = new Intl.PluralRules(language.value).select(Number(value));
    // In Russian a fraction is "other", and takes the form of few.
    const index = category === "one" ? 0 : category === "few" || (category === "other" && variants.length > 2) ? 1 : variants.length - 1;
    return (variants[index] ?? whole).replace("#", Number(value).toLocaleString(locale.value));
  });
}
