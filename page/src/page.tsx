// The page: its frame, and which screen the address asks for.
import { effect, signal } from "@preact/signals";
import { type ComponentChildren, type VNode, options, render } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Activity } from "./activity.tsx";
import { ArrayPage, Arrays } from "./array.tsx";
import { needs_reader } from "./cases.ts";
import { Create } from "./create.tsx";
import { Drives } from "./drives.tsx";
import { First, found } from "./first.tsx";
import { about, begin, login_needed, logins, refusal, silent_since, state } from "./live.ts";
import { type Fault, Refused, Sign, Silence, Told } from "./parts.tsx";
import { PlanWindow, planned } from "./plan.tsx";
import { known, log_in, login_ways } from "./server.ts";
import { Alarms, Settings } from "./settings.tsx";
import { type Key, language, t } from "./words.ts";

// Names and texts come from drives and networks. What is not drawn, and what changes the direction or order of others, is shown as U+FFFD: the
// classes of `block::shown`, but for line ends, tabs, the page's own soft hyphens, and the blanks that dates and figures have (U+00A0, U+2009, U+202F).
const HARMFUL =
  /(?![\t\n\u00ad])[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}\u1680\u2000-\u2008\u200a\u205f\u2800\u3000\ufffc\u{13441}\u{13442}\u{16fe4}\u{1d159}]/gu;
const harmless = (child: ComponentChildren): ComponentChildren =>
  typeof child === "string" ? child.replace(HARMFUL, "\ufffd") : Array.isArray(child) ? child.map(harmless) : child;
const before = options.vnode;
options.vnode = (vnode: VNode) => {
  const props = vnode.props as { children?: ComponentChildren };
  if (props.children !== undefined) props.children = harmless(props.children);
  before?.(vnode);
};

const route = signal(path());

function path(): string[] {
  return location.hash
    .replace(/^#\/?/, "")
    .split("/")
    .map((part) => {
      try {
        return decodeURIComponent(part);
      } catch {
        return part;
      }
    });
}

const PLACES: [string, Key, Parameters<typeof Sign>[0]["name"]][] = [
  ["", "nav_now", "now"],
  ["arrays", "nav_arrays", "arrays"],
  ["drives", "nav_drives", "drives"],
  ["activity", "nav_activity", "activity"],
  ["alarms", "nav_alarms", "bell"],
  ["settings", "nav_settings", "settings"],
];

function Screen() {
  const [place, name] = route.value;
  if (!state.value) return refusal.value ? null : <p class="soft">{t("asking")}</p>;
  switch (place) {
    case "arrays":
      return name ? <ArrayPage name={name} /> : <Arrays />;
    case "drives":
      return <Drives />;
    case "create":
      return <Create />;
    case "activity":
      return <Activity />;
    case "alarms":
      return <Alarms />;
    case "settings":
      return <Settings />;
    default:
      return <First />;
  }
}

function Page() {
  const main = useRef<HTMLElement>(null);
  const place = route.value[0] ?? "";
  useEffect(() => {
    const move = () => {
      route.value = path();
      planned.value = null;
      scrollTo(0, 0);
      main.current?.focus({ preventScroll: true });
    };
    addEventListener("hashchange", move);
    return () => removeEventListener("hashchange", move);
  }, []);
  const is_locked = login_needed.value;
  useEffect(() => {
    if (!is_locked && logins.value > 0) main.current?.focus({ preventScroll: true });
  }, [is_locked]);
  const open = found.value.filter(needs_reader).length;
  // The page stays rendered under the login, so that jobs are still followed and typed text is not lost.
  return (
    <>
    {is_locked && <Login />}
    <div class={`frame${silent_since.value === null ? "" : " silent"}`} hidden={is_locked} inert={is_locked}>
      <a class="skip" href="#content" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        {t("skip")}
      </a>
      <header class="top">
        <a class="brand" href="#/">
          <svg viewBox="0 0 32 32" aria-hidden="true">
            <path d="M5 8h22M5 16h14M5 24h22" />
          </svg>
          Stria
        </a>
        <span class="machine">{about.value?.machine ?? ""}</span>
        <Pulse />
      </header>
      <nav aria-label={t("main_menu")}>
        <ul>
          {PLACES.map(([where, key, sign]) => (
            <li key={where}>
              <a href={`#/${where}`} aria-current={where === place || (where === "arrays" && place === "create") ? "page" : undefined}>
                <Sign name={sign} class="nav-sign" />
                <span>{t(key)}</span>
                {where === "" && open > 0 && (
                  <span class="count">
                    {open}
                    <span class="hidden"> {t("matters", { n: open })}</span>
                  </span>
                )}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <main id="content" ref={main} tabIndex={-1}>
        <Silence />
        <div class="screen">
          <Screen />
        </div>
      </main>
      <PlanWindow />
    </div>
    </>
  );
}

function Pulse() {
  const since = silent_since.value;
  return (
    <span class={`pulse ${since === null && state.value ? "good" : "bad"}`}>
      <span class="dot" aria-hidden="true" /> {since !== null ? t("no_answer_short") : state.value ? t("live") : t("connecting")}
    </span>
  );
}

/** A session begins with a token, or, where the server admits accounts of its system, with a name and a password. */
function Login() {
  const [accounts, set_accounts] = useState(false);
  const [by_token, set_by_token] = useState(false);
  const [user, set_user] = useState("");
  const [secret, set_secret] = useState("");
  const [waits, set_waits] = useState(false);
  const [error, set_error] = useState<Fault | null>(null);
  const id = useId();
  useEffect(() => void login_ways().then((ways) => set_accounts(ways.accounts), set_error), []);
  const by_name = accounts && !by_token;
  const first = useRef<HTMLInputElement>(null);
  // After the next frame it would take the focus from a field that the reader has begun to fill.
  useLayoutEffect(() => first.current?.focus(), [by_name]);
  return (
    <main class="login">
      <h1>Stria</h1>
      {known.value && <p role="status">{t("session_ended")}</p>}
      <form
        class="card"
        onSubmit={(event) => {
          event.preventDefault();
          set_waits(true);
          log_in(by_name ? { user, password: secret } : { token: secret })
            .then(() => begin(false), set_error)
            .finally(() => set_waits(false));
        }}
      >
        {by_name && (
          <p class="field">
            <label for={`${id}-user`}>{t("user_name")}</label>
            <input ref={first} id={`${id}-user`} type="text" autocomplete="username" autocapitalize="none" spellcheck={false} value={user} onInput={(event) => set_user(event.currentTarget.value)} />
          </p>
        )}
        <p class="field">
          <label for={id}>{t(by_name ? "password" : "token")}</label>
          <input ref={by_name ? undefined : first} id={id} type="password" autocomplete="current-password" value={secret} onInput={(event) => set_secret(event.currentTarget.value)} />
          <span class="soft"><Told text={t(by_name ? "password_hint" : "token_hint")} /></span>
        </p>
        <Refused error={error} />
        <div class="buttons">
          <button type="submit" class="primary" disabled={waits || secret === "" || (by_name && user === "")}>
            {t("log_in")}
          </button>
          {accounts && (
            <button
              type="button"
              onClick={() => {
                set_by_token(by_name);
                set_secret("");
                set_error(null);
              }}
            >
              {t(by_name ? "log_in_by_token" : "log_in_by_name")}
            </button>
          )}
        </div>
      </form>
    </main>
  );
}

effect(() => {
  document.documentElement.lang = language.value;
  const open = found.value.filter(needs_reader).length;
  const machine = about.value?.machine ? ` – ${about.value.machine}` : "";
  document.title = login_needed.value ? `${t("log_in")}${machine}` : silent_since.value !== null ? `${t("no_answer_short")}${machine}` : open > 0 ? `(${open}) ${t("matters", { n: open })}${machine}` : `Stria${machine}`;
});

const root = document.getElementById("page");
const show = () => root && render(<Page />, root);
void begin(false);
// The header of index.html is painted first. A page in the background is not painted.
if (document.hidden) show();
else requestAnimationFrame(() => setTimeout(show));
