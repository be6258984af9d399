// All drives of the machine: what each is, what lies on it, and how it is.
import { useEffect, useState } from "preact/hooks";
import { bytes, count, level_name, percent, time, with_unit } from "./format.ts";
import { array_of, drives, here, look_at_drives } from "./live.ts";
import { Light } from "./light.tsx";
import { Act, NoDrives, Pill, Told, place_of } from "./parts.tsx";
import { open_plan } from "./plan.tsx";
import { IntoPool, Pool } from "./pool.tsx";
import { Said } from "./said.tsx";
import type { Drive, Volume } from "./types.ts";
import { type Key, english, t } from "./words.ts";

/** The drives that need somebody come first; the others stay in their order. */
const urgency = ({ health, member, error }: Drive) => (member?.role === "failed" ? 3 : 0) + (health?.verdict === "replace" ? 2 : health?.verdict === "watch" ? 1 : 0) + (error ? 1 : 0);

export function Drives() {
  const [is_looking, set_looking] = useState(false);
  const list = drives.value && [...drives.value].sort((a, b) => urgency(b) - urgency(a));
  const look = async () => {
    set_looking(true);
    await look_at_drives(true);
    set_looking(false);
  };
  // The list may be minutes old: no state changes when a drive that nobody uses is pulled, or an image deleted.
  useEffect(() => void look_at_drives(), []);
  return (
    <>
      <header class="page-head">
        <h1>{t("nav_drives")}</h1>
        <button type="button" onClick={look} disabled={is_looking}>
          {t(is_looking ? "looking" : "look_again")}
        </button>
      </header>
      <Pool />
      <NoDrives />
      {list?.length === 0 && <p>{t("no_drives")}</p>}
      <ul class="drives">
        {list?.map((drive) => (
          <DriveCard key={drive.path} drive={drive} />
        ))}
      </ul>
    </>
  );
}

/** Each span has its own slots. */
function place_in(path: string, { array, slot }: NonNullable<Drive["member"]>): string {
  const spans = array_of(array)?.view?.spans ?? [];
  const span = spans.find(({ members }) => members.some((member) => member.path === path))?.name;
  const has_slot = slot !== null && slot !== undefined;
  const key: Key = has_slot ? (span ? "member_in_span" : "member_in_slot") : span ? "spare_of_span" : "member_of";
  return t(key, { array, span: span ?? "", slot: slot ?? "" });
}

const KINDS: Record<string, Key> = { ssd: "kind_ssd", hdd: "kind_hdd", file: "kind_file" };

function DriveCard({ drive }: { drive: Drive }) {
  const { health, member } = drive;
  const facts: [Key, string][] = [];
  const fact = (key: Key, value: string | number | null | undefined, shown?: (value: number) => string) => {
    if (value !== null && value !== undefined) facts.push([key, typeof value === "number" ? (shown ?? count)(value) : value]);
  };
  fact("serial", drive.serial);
  fact("place", place_of(drive.seat));
  fact("wear", health?.wear_percent, (value) => percent(value / 100));
  fact("temperature", health?.temperature_c, (value) => with_unit(value, "°C"));
  fact("media_errors", health?.media_errors);
  fact("firmware", health?.firmware);
  fact("spare_left", health?.spare_percent, (value) => percent(value / 100));
  fact("link_errors", health?.link_errors);
  fact("power_on", health?.power_on_hours, (value) => t("hours_on", { n: value }));
  fact("unsafe_shutdowns", health?.unsafe_shutdowns);
  fact("written_ever", health?.written_bytes, bytes);
  const is_failed = member?.role === "failed";
  const asked = drive.health_read_at_s ? <p class="note">{t("asked_at", { time: time(here(drive.health_read_at_s * 1000)) })}</p> : null;
  return (
    <li class="card small drive">
      <div class="drive-head">
        <h2 class="path">{drive.path}</h2>
        {is_failed ? (
          <Pill state="critical">{t("failed_member")}</Pill>
        ) : (
          health && <Pill state={health.verdict === "good" ? "good" : health.verdict === "watch" ? "warning" : "critical"}>{t(`verdict_${health.verdict}`)}</Pill>
        )}
      </div>
      <p class="soft">{[drive.kind && KINDS[drive.kind] ? t(KINDS[drive.kind] as Key) : null, drive.model, drive.size_bytes ? bytes(drive.size_bytes) : null].filter(Boolean).join(" · ")}</p>
      <p>
        {member ? (
          <a href={`#/arrays/${encodeURIComponent(member.array)}`}>{place_in(drive.path, member)}</a>
        ) : drive.users.length > 0 ? (
          <Told text={t("in_use", { by: english(drive.users.join(", ")) })} />
        ) : drive.carries.length > 0 ? (
          <Told text={t("carries", { what: english(drive.carries.join(", ")) })} />
        ) : drive.error ? null : (
          t(drive.pool ? "in_pool" : "drive_empty")
        )}
      </p>
      {drive.volumes.map((volume) => (
        <p key={volume.uuid} class={volume.missing_slots.length > 0 ? "notable" : ""}>
          {volume_words(volume)}
        </p>
      ))}
      {drive.volumes_error && (
        <p class="soft">
          <Said text={drive.volumes_error} said={drive.volumes_error_said} />
        </p>
      )}
      {drive.error && (
        <p class="bad">
          <Said text={drive.error} said={drive.error_said} />
        </p>
      )}
      {is_failed && health?.verdict === "good" && <p class="soft">{t("healthy_all_the_same")}</p>}
      {!health && <p class="soft">{drive.health_error ? <span lang="en">{drive.health_error}</span> : t("health_unknown")}</p>}
      {health?.findings.map((finding) => (
        <p key={finding.sentence}>
          <Said text={finding.sentence} said={finding.said} />
        </p>
      ))}
      <Facts facts={facts.slice(0, 4)} />
      {facts.length > 4 && (
        <details>
          <summary>{t("more_figures")}</summary>
          <Facts facts={facts.slice(4)} />
          {asked}
        </details>
      )}
      {facts.length <= 4 && asked}
      <div class="buttons">
        <IntoPool drive={drive} />
        {!member && drive.carries.length > 0 && drive.users.length === 0 && (
          <Act role="admin" danger onClick={() => open_plan({ action: "wipe", drives: [drive.path], means: "signatures" })}>
            {t("act_wipe")}…
          </Act>
        )}
      </div>
      <Light drive={drive} />
    </li>
  );
}

/** What firmware recorded of a volume on one of its drives. */
function volume_words({ name, format, level, member_count, slot, missing_slots, rebuilding_slots }: Volume): string {
  const raid = level.startsWith("raid") ? level_name(level.slice(4)) : level;
  const set = format === "IMSM" ? "volume_of_imsm" : "volume_of_ddf";
  const slots = (key: Key, of: number[]) => (of.length === 0 ? [] : [t(key, { n: of.length, slots: of.join(", ") })]);
  return [t(set, { name, raid, n: member_count, slot: String(slot) }), ...slots("volume_lacks", missing_slots), ...slots("volume_fills", rebuilding_slots)].join(" ");
}

function Facts({ facts }: { facts: [Key, string][] }) {
  if (facts.length === 0) return null;
  return (
    <dl class={`details${facts.length % 2 === 0 ? " pairs" : ""}`}>
      {facts.map(([key, value]) => (
        <div key={key}>
          <dt>{t(key)}</dt>
          <dd class={key === "serial" || key === "firmware" ? "mono" : ""}>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
