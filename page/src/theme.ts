// Light or dark, as the reader chose or the system asks.
import { effect, signal } from "@preact/signals";
import { remember, remembered } from "./words.ts";

export type Theme = "auto" | "light" | "dark";
const is_theme = (text: unknown): text is Theme => text === "auto" || text === "light" || text === "dark";

export const theme = signal<Theme>(remembered("theme", is_theme) ?? "auto");

export function choose_theme(wanted: Theme) {
  theme.value = wanted;
  remember("theme", wanted === "auto" ? null : wanted);
}

effect(() => {
  if (theme.value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
});
