// What has happened: events, kept over restarts, and who ordered what.
import { useEffect, useState } from "preact/hooks";
import { arrays, events, jobs, server_zone } from "./live.ts";
import { JobLine } from "./first.tsx";
import { zone } from "./format.ts";
import { Refused, Sign, Told, When, useLoaded } from "./parts.tsx";
import { Said, worded } from "./said.tsx";
import * as server from "./server.ts";
import type { Event, EventPage } from "./types.ts";
import { language, t, unmarked } from "./words.ts";

const SERIOUS = new Set(["member_failed", "member_gone", "no_room", "member_silent", "wrong_bytes", "bad_blocks", "unreadable", "lane_silent", "mismatch", "alarm", "sweep_stopped"]);

/** So many events are shown at first, and so many more each time; the server sends no more than the most. */
const PAGE = 200;
const MOST = 1000;
const SEARCH_AFTER_MS = 400;

/** For a search: a reader types a plain space before a unit. */
const plain = (text: string) => unmarked(text).toLowerCase().replaceAll("\u00a0", " ");
/** Whether an event has this text, in the server's English or as the page words it. */
const has = (event: Event, text: string) => event.text.includes(text) || plain(worded(event.said, event.cause) ?? "").includes(plain(text));

/** The events that are wanted. The server searches all of them in its English; the latest are searched here as well, in the reader's language. */
async function found(wanted: { array: string; text: string; limit: number }, is_unattended: boolean): Promise<EventPage> {
  const page = await server.events(wanted, is_unattended);
  if (wanted.text === "" || language.value === "en") return page;
  const latest = await server.events({ ...wanted, text: "", limit: MOST }, is_unattended);
  const all = new Map([...page.events, ...latest.events.filter((event) => has(event, wanted.text))].map((event) => [`${event.time_ms} ${event.sequence}`, event]));
  const events = [...all.values()].sort((one, other) => one.time_ms - other.time_ms || one.sequence - other.sequence);
  return { ...page, more: page.more || events.length > wanted.limit, events: events.slice(-wanted.limit) };
}

export function Activity() {
  const [array, set_array] = useState("");
  const [typed, set_typed] = useState("");
  const [text, set_text] = useState("");
  // The server reads its whole file for a search: it is asked once the reader pauses.
  useEffect(() => {
    const timer = setTimeout(() => set_text(typed), SEARCH_AFTER_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  const [orders, set_orders] = useState(false);
  const [limit, set_limit] = useState(PAGE);
  const newest = events.value.at(-1)?.time_ms;
  const load = (is_unattended: boolean) =>
    orders ? server.audit(limit, is_unattended) : found({ array, text, limit }, is_unattended);
  const { value, error } = useLoaded(load, [array, text, orders, limit, language.value], [newest]);
  const shown = [...(value?.events ?? [])].filter((event) => !orders || ((array === "" || event.array === array) && has(event, text))).reverse();
  return (
    <>
      <header class="page-head">
        <h1>{t("nav_activity")}</h1>
      </header>
      {jobs.value.length > 0 && (
        <section class="card">
          <h2>{t("jobs")}</h2>
          {[...jobs.value].reverse().map((job) => (
            <JobLine key={job.id} job={job} />
          ))}
        </section>
      )}
      <section class="card">
        <h2>{t("events")}</h2>
        <div class="filters">
          <label>
            {t("array")}
            <select value={array} onChange={(event) => set_array(event.currentTarget.value)}>
              <option value="">{t("all")}</option>
              {arrays.value.map((entry) => (
                <option key={entry.name}>{entry.name}</option>
              ))}
            </select>
          </label>
          <label>
            {t("search")}
            <input type="search" value={typed} onInput={(event) => set_typed(event.currentTarget.value)} />
          </label>
          <label class="check">
            <input type="checkbox" checked={orders} onChange={(event) => set_orders(event.currentTarget.checked)} /> {t("only_orders")}
          </label>
        </div>
        <Refused error={error} />
        {value && value.unstored > 0 && (
          <p class="notable">
            <Sign name="warning" /> {t("events_behind", { n: value.unstored })}
          </p>
        )}
        {value && shown.length === 0 && <p class="soft">{t("no_events")}</p>}
        <ol class="events">
          {shown.map((event) => (
            <Line key={`${event.time_ms} ${event.sequence}`} event={event} />
          ))}
        </ol>
        <p class="note">{t("times_of_events", { zone: zone(), server: server_zone() })}</p>
        {value?.more &&
          (limit < MOST ? (
            <div class="buttons">
              <button type="button" onClick={() => set_limit(Math.min(MOST, limit + PAGE))}>
                {t("show_older")}
              </button>
            </div>
          ) : (
            <p class="note">
              <Told text={t("older_events")} />
            </p>
          ))}
      </section>
    </>
  );
}

/** An order by the API ends with its fields for programs, which stay in the daemon's file. */
const order = (text: string) => text.replace(/\.?: \{"action":.*$/s, "");

const Line = ({ event }: { event: Event }) => (
  <li class={SERIOUS.has(event.kind) ? "serious" : ""}>
    <When ms={event.time_ms} />
    <span class="event-array">{event.array}</span>
    <span>
      <Said text={event.kind === "ordered" ? order(event.text) : event.text} said={event.said} cause={event.cause} />
    </span>
  </li>
);
