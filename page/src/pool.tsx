// The pool of spares that arrays share: its policy, its drives, and what it has for each array.
import { drives } from "./live.ts";
import { Act, Refused, Told, useLoaded } from "./parts.tsx";
import { open_plan } from "./plan.tsx";
import { Said, all_worded } from "./said.tsx";
import * as server from "./server.ts";
import type { Drive, SparePool } from "./types.ts";
import { type Key, english, t } from "./words.ts";

const KIND: Record<SparePool["kind"], Key> = { same: "pool_kind_same", prefer: "pool_kind_prefer", any: "pool_kind_any" };
const PLACE: Record<SparePool["enclosure"], Key> = { same: "pool_place_same", prefer: "pool_place_prefer", any: "pool_place_any" };

export function Pool() {
  const { value, error } = useLoaded(server.spares, [], [drives.value]);
  return (
    <section class="card">
      <h2>{t("pool")}</h2>
      <Refused error={error} />
      {value && (
        <>
          <p class="soft">
            {t("pool_means")} {t(KIND[value.kind])} {t(PLACE[value.enclosure])}
          </p>
          {value.drives.length === 0 && <p>{t("pool_empty")}</p>}
          <ul class="plain-list">
            {value.drives.map((drive) => (
              <li key={drive.path}>
                <span class="path">{drive.path}</span> <Said text={drive.state} said={drive.said} />{" "}
                <Act onClick={() => open_plan({ action: "spare_remove", drives: [drive.path] })}>
                  {t("act_spare_remove")}…<span class="hidden"> {drive.path}</span>
                </Act>
              </li>
            ))}
          </ul>
          {value.drives.length > 0 && value.offers.length > 0 && (
            <>
              <h3>{t("pool_offers")}</h3>
              <ul class="plain-list">
                {value.offers.map((offer) => (
                  <li key={offer.span ?? offer.array}>
                    <strong>{offer.span ?? offer.array}</strong>{" "}
                    {offer.why_none ? <Told text={all_worded(offer.said) ?? english(offer.why_none)} /> : <span class="path">{offer.drives.join(", ")}</span>}
                  </li>
                ))}
              </ul>
            </>
          )}
        </>
      )}
    </section>
  );
}

/** The button that puts a drive into the pool, if the drive could go there. What it carries is lost, as the plan says. */
export function IntoPool({ drive }: { drive: Drive }) {
  if (drive.pool || drive.error || drive.users.length > 0 || drive.member?.served) return null;
  return (
    <Act role={drive.carries.length > 0 ? "admin" : "operate"} danger={drive.carries.length > 0} onClick={() => open_plan({ action: "spare_add", drives: [drive.path] })}>
      {t("act_spare_add")}…<span class="hidden"> {drive.path}</span>
    </Act>
  );
}
