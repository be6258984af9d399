// The settings of an array: each stays as it is until another value is chosen. The plan says what the change costs.
import { useState } from "preact/hooks";
import { Act, useDone } from "./parts.tsx";
import { open_plan } from "./plan.tsx";
import type { ArrayView } from "./types.ts";
import { type Key, t } from "./words.ts";

type Setting = "write" | "drive_caches" | "read_only" | "bitmap" | "log" | "integrity";
/** A setting: its name, its values with their words, the value that holds (null: not known), and whether the level has it. */
type Row = { name: Setting; title: Key; values: [string, Key][]; holds: string | null; is_here: boolean };

const YES_NO: [string, Key][] = [
  ["on", "yes"],
  ["off", "no"],
];
const WRITES: [string, Key][] = [
  ["through", "write_through"],
  ["safe", "write_safe"],
  ["back", "write_back"],
];

/** What a power cut costs. */
const COSTS: Record<NonNullable<ArrayView["write"]>, Key> = { through: "power_cut_through", safe: "power_cut_safe", back: "power_cut_back" };

const on_off = (is_on: boolean) => (is_on ? "on" : "off");

function rows(view: ArrayView | null): Row[] {
  const has = (levels: string[]) => !view || levels.includes(view.level);
  const checked = view && [view, ...view.spans].some((part) => part.members.some((member) => member.checksums !== null));
  return [
    { name: "write", title: "set_write", values: WRITES, holds: view?.write ?? null, is_here: true },
    { name: "drive_caches", title: "set_caches", values: YES_NO, holds: null, is_here: !view || view.drive_caches !== null },
    { name: "read_only", title: "set_read_only", values: YES_NO, holds: view && on_off(view.read_only), is_here: true },
    { name: "bitmap", title: "bitmap", values: YES_NO, holds: view && view.spans.length === 0 ? on_off(view.bitmap !== null) : null, is_here: has(["1", "4", "5", "6", "10", "50", "60"]) },
    { name: "log", title: "write_log", values: YES_NO, holds: view && view.spans.length === 0 ? on_off(view.log !== null) : null, is_here: has(["4", "5", "6", "50", "60"]) },
    { name: "integrity", title: "checksums", values: YES_NO, holds: view && on_off(checked === true), is_here: true },
  ];
}

export function ArraySettings({ array, view }: { array: string; view: ArrayView | null }) {
  const [chosen, set_chosen] = useState<Partial<Record<Setting, string>>>({});
  useDone("set", array, () => set_chosen({}));
  const wanted = (name: Setting) => chosen[name] || null;
  const is_on = (name: Setting) => (wanted(name) === null ? null : wanted(name) === "on");
  const choice = (name: Setting, on: string) => (is_on(name) === null ? null : is_on(name) ? on : "none");
  const show = () =>
    open_plan({
      action: "set",
      array,
      write: wanted("write") as "through" | "safe" | "back" | null,
      drive_caches: is_on("drive_caches"),
      read_only: is_on("read_only"),
      bitmap: choice("bitmap", "internal"),
      log: choice("log", "auto"),
      integrity: is_on("integrity"),
      // The plan names the clients that a pause would disconnect, and asks for the array's name.
      force: true,
    });
  return (
    <section class="card">
      <h2>{t("array_settings")}</h2>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        {rows(view)
          .filter((row) => row.is_here)
          .map(({ name, title, values, holds }) => {
            const present = values.find(([value]) => value === holds);
            return (
              <label key={name}>
                {t(title)}
                <select value={chosen[name] ?? ""} onChange={(event) => set_chosen({ ...chosen, [name]: event.currentTarget.value })}>
                  <option value="">{present ? t("as_it_is_now", { value: t(present[1]) }) : t(view ? "as_it_is" : "as_it_is_stopped")}</option>
                  {values
                    .filter(([value]) => value !== holds)
                    .map(([value, word]) => (
                      <option key={value} value={value}>
                        {t(word)}
                      </option>
                    ))}
                </select>
              </label>
            );
          })}
      </form>
      {view?.write && <p class="soft">{t(COSTS[view.write])}</p>}
      <div class="buttons">
        <Act role="admin" busy={!Object.values(chosen).some((value) => value !== "")} onClick={show}>
          {t("act_set")}…
        </Act>
      </div>
    </section>
  );
}
