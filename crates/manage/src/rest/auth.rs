//! Users of the API: who they are, and what they may do.
//!
//! | way | proof | role |
//! | --- | --- | --- |
//! | unix socket | the kernel names user and groups of the other end | root and the daemon's own user: admin; members of `[api] group`: operate |
//! | bearer token | its SHA-256 stands in the file of tokens | that of its line |
//! | client certificate | TLS has checked its authority, and its fingerprint stands in the file of tokens | that of its line |
//! | session | a cookie that a token has bought | that of the token, as long as its line stands |
//! | session | a cookie that an account of the system has bought by its password (`accounts`) | that of the account on the unix socket, at every request |
//!
//! The file of tokens has one line for each: `NAME ROLE SHA256`, or `NAME ROLE cert:SHA256`. It is read at every request, so a
//! line that is removed counts no more at once.

use super::types::{Role, Via, Who};
use super::users::{Users, user_name};
use crate::api::{ApiError, ApiErrorKind};
use crate::config::{ApiGroup, ApiOptions, SystemAccounts};
use crate::system::clock::now_ms;
use crate::words::error::ErrorSentence;
use nix::unistd::{Gid, Group, User};
use ring::digest::{Context, SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The begin of the name of a session's cookie. A number of the daemon's own follows ([`Guard::cookie`]), and the port that the
/// client names, if it names one.
pub const COOKIE: &str = "stria_session";
/// A session ends so long after its last request, and at the latest so long after its begin.
const IDLE: Duration = Duration::from_secs(30 * 60);
pub const LASTS: Duration = Duration::from_secs(12 * 3600);
/// Sessions at a time; the one that was silent for longest gives way.
const SESSIONS_MAX: usize = 256;
/// Sessions of one token or account at a time. A further one ends the least recently used of them, never one of another token or
/// account.
const SESSIONS_OF_ONE_MAX: usize = 16;
/// Sessions that one token or account may begin within [`COUNTED_FOR`].
const LOGINS_MAX: u32 = 30;
/// The number of sessions of one token or account within [`COUNTED_FOR`] that have an event. Logins in a loop would push orders
/// out of the record.
pub const LOGINS_SHOWN: u32 = 3;
/// The time for which requests of one origin are counted.
pub const COUNTED_FOR: Duration = Duration::from_secs(60);
/// Origins that are counted at a time.
const ORIGINS_MAX: usize = 1024;
/// Wrong tokens and passwords that one peer may show in [`FORGIVEN_AFTER`].
const WRONG_MAX: u32 = 10;
const FORGIVEN_AFTER: Duration = Duration::from_secs(60);
/// Peers that are remembered.
const PEERS_MAX: usize = 4096;

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// A process of this machine.
    Unix {
        /// Its user.
        uid: u32,
        /// Its group.
        gid: u32,
        /// Its number, if the system reports it.
        pid: Option<i32>,
    },
    /// Another machine, by TLS.
    Tls {
        /// Its address.
        address: IpAddr,
        /// The SHA-256 of its certificate, which TLS has checked.
        certificate: Option<String>,
    },
}

impl Peer {
    /// The part that counts wrong tokens and passwords, and refusals: a user, an IPv4 address, an IPv6 network of 64 bits.
    pub fn origin(&self) -> String {
        match self {
            Self::Unix { uid, .. } => format!("user {uid}"),
            Self::Tls { address, .. } => match address.to_canonical() {
                IpAddr::V4(address) => address.to_string(),
                IpAddr::V6(address) => address.segments()[..4].iter().map(|part| format!("{part:x}:")).collect(),
            },
        }
    }

    /// The address, for PAM; none of a process of this machine.
    pub fn address(&self) -> String {
        match self {
            Self::Unix { .. } => String::new(),
            Self::Tls { address, .. } => address.to_canonical().to_string(),
        }
    }

    /// In words, for the record.
    pub fn shown(&self) -> String {
        match self {
            Self::Unix { uid, pid, .. } => {
                let process = pid.map_or_else(String::new, |pid| format!(", process {pid}"));
                format!("{}{process}", user_name(*uid))
            }
            Self::Tls { address, .. } => address.to_canonical().to_string(),
        }
    }
}

/// A user who may do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The user.
    pub name: String,
    /// The rights.
    pub role: Role,
    /// The proof.
    pub via: Via,
    /// The header value that a session demands.
    pub csrf: Option<String>,
    /// The end of the session.
    pub expires_ms: Option<u64>,
    /// The session's number, hashed.
    session: Option<String>,
    /// The other end, in words.
    pub from: String,
}

impl Caller {
    /// As it is shown to the user.
    pub fn who(&self) -> Who {
        let Self { name, role, via, csrf, expires_ms, .. } = self.clone();
        Who { name, role, via, csrf, expires_ms }
    }

    /// In words, for the record.
    pub fn shown(&self) -> String {
        match self.via {
            Via::Unix => self.from.clone(),
            Via::Token => format!("token {} from {}", self.name, self.from),
            Via::Certificate => format!("certificate {} from {}", self.name, self.from),
            Via::Session => format!("session of {} from {}", self.name, self.from),
        }
    }
}

/// What bought a session, and must stay so.
#[derive(Clone)]
enum Bought {
    /// The line of a token.
    Token(TokenLine),
    /// An account of the system, by its number.
    Account(u32),
}

impl Bought {
    /// The token or account, as a message names it.
    fn holder(&self) -> String {
        match self {
            Self::Token(line) => format!("token {}", line.name),
            Self::Account(uid) => format!("account {uid}"),
        }
    }
}

/// A session that has begun.
pub struct Begun {
    /// Its number, for the cookie.
    pub number: String,
    /// Its caller.
    pub caller: Caller,
    /// The number of its holder's sessions that began within the last minute, from 1.
    pub count: u32,
}

/// Requests of one kind, counted by origin.
#[derive(Default)]
pub struct Counts(HashMap<String, (Instant, u32)>);

impl Counts {
    /// The number of this request among those of its origin, from 1. `None`: there are more than `most`, or more origins than are
    /// remembered.
    pub fn count(&mut self, origin: String, most: u32) -> Option<u32> {
        if self.0.len() >= ORIGINS_MAX {
            self.0.retain(|_, (since, _)| since.elapsed() < COUNTED_FOR);
        }
        if self.0.len() >= ORIGINS_MAX && !self.0.contains_key(&origin) {
            return None;
        }
        let (since, count) = self.0.entry(origin).or_insert_with(|| (Instant::now(), 0));
        if since.elapsed() >= COUNTED_FOR {
            (*since, *count) = (Instant::now(), 0);
        }
        *count = count.saturating_add(1);
        (*count <= most).then_some(*count)
    }
}

struct Session {
    by: Bought,
    csrf: String,
    begun: Instant,
    expires_ms: u64,
    seen: Instant,
}

/// The credentials that a request carries.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// `authorization: Bearer …`
    pub token: Option<String>,
    /// The session's cookie.
    pub session: Option<String>,
}

/// A line of the file of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenLine {
    /// The name.
    pub name: String,
    /// The rights.
    pub role: Role,
    /// `SHA256` or `cert:SHA256`, in hexadecimal digits.
    pub proof: String,
}

/// The check of who calls.
pub struct Guard {
    /// The name of its cookie, without the port.
    pub cookie: String,
    /// The file of tokens.
    tokens: std::path::PathBuf,
    /// The group that may operate, and the one that may do everything.
    groups: Mutex<(Option<u32>, Option<u32>)>,
    /// The accounts that log in with their password.
    accounts: SystemAccounts,
    users: Arc<Users>,
    sessions: Mutex<HashMap<String, Session>>,
    logins: Mutex<Counts>,
    wrong: Mutex<Wrong>,
}

/// Wrong tokens and passwords by origin: since when, and how many.
#[derive(Default)]
struct Wrong(HashMap<String, (Instant, u32)>);

impl Wrong {
    fn check(&self, origin: &str) -> Result<(), ApiError> {
        match self.0.get(origin) {
            Some((since, count)) if is_recent(*since) && *count >= WRONG_MAX => {
                let said = ErrorSentence::TooManyWrong { origin: origin.to_owned(), seconds: FORGIVEN_AFTER.as_secs() };
                Err(ApiError::new(ApiErrorKind::TooMany, said))
            }
            _ => Ok(()),
        }
    }

    /// Counts one more. False if there is no space for a further origin.
    fn count(&mut self, origin: String) -> bool {
        if self.0.len() >= PEERS_MAX {
            self.0.retain(|_, (since, _)| is_recent(*since));
        }
        if self.0.len() >= PEERS_MAX && !self.0.contains_key(&origin) {
            return false;
        }
        let entry = self.0.entry(origin).or_insert((Instant::now(), 0));
        if !is_recent(entry.0) {
            *entry = (Instant::now(), 0);
        }
        entry.1 += 1;
        true
    }
}

fn is_recent(since: Instant) -> bool {
    since.elapsed() < FORGIVEN_AFTER
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hexadecimal digits of the SHA-256.
pub fn sha256(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

/// The same of all that can be read, of which a part at a time is in memory.
///
/// # Errors
/// When it cannot be read.
pub fn sha256_of(source: &mut impl Read) -> io::Result<String> {
    let (mut context, mut part) = (Context::new(&SHA256), vec![0; 1 << 20]);
    loop {
        match source.read(&mut part) {
            Ok(0) => return Ok(hex(context.finish().as_ref())),
            Ok(length) => context.update(&part[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The name of the cookie of a daemon with these options on this machine. It differs from that of every other daemon, which a
/// browser may reach at the same host and port, and is the same after a restart, so that browsers do not collect cookies.
fn cookie_of(options: &ApiOptions, machine: &str, host: &str) -> String {
    // Hashed, as the number of a machine is not for strangers (machine-id(5)).
    let own = sha256(format!("stria session\n{machine}\n{host}\n{}\n{:?}", options.tokens.display(), options.listen).as_bytes());
    format!("{COOKIE}_{}", &own[..8])
}

fn read_or_empty(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// 256 random bits in hexadecimal digits.
pub fn secret() -> String {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).expect("the kernel gives random numbers");
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reads the file of tokens. One that is not there is empty.
///
/// # Errors
/// The line that is invalid.
pub fn read_tokens(path: &Path) -> Result<Vec<TokenLine>, String> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
    };
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#')) {
        let fault =
            || format!("{}:{}: a line is NAME view|operate|admin SHA256; `stria token` writes them", path.display(), index + 1);
        let [name, role, proof] = line.split_whitespace().collect::<Vec<_>>()[..] else { return Err(fault()) };
        let role = match role {
            "view" => Role::View,
            "operate" => Role::Operate,
            "admin" => Role::Admin,
            _ => return Err(fault()),
        };
        let digits = proof.strip_prefix("cert:").unwrap_or(proof);
        if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(fault());
        }
        lines.push(TokenLine { name: name.into(), role, proof: proof.to_ascii_lowercase() });
    }
    Ok(lines)
}

impl Guard {
    /// A guard with the file of tokens, groups and accounts of the configuration.
    pub fn new(options: &ApiOptions) -> Self {
        let cookie = cookie_of(options, &read_or_empty("/etc/machine-id"), &read_or_empty("/proc/sys/kernel/hostname"));
        let ApiOptions { tokens, group, admin_group, accounts, .. } = options.clone();
        let (sessions, logins, wrong) = (Mutex::default(), Mutex::default(), Mutex::default());
        let users = Users::of_this_machine();
        Self { cookie, tokens, groups: Mutex::new((group, admin_group)), accounts, users, sessions, logins, wrong }
    }

    /// A group was not known at the start, and is now. Returns those that are known: the one that may operate, and the one that
    /// may do everything.
    pub fn set_group(&self, of: ApiGroup, number: u32) -> (Option<u32>, Option<u32>) {
        let mut groups = lock(&self.groups);
        match of {
            ApiGroup::Default | ApiGroup::Operate => groups.0 = Some(number),
            ApiGroup::Admin => groups.1 = Some(number),
        }
        *groups
    }

    fn lines(&self) -> Result<Vec<TokenLine>, ApiError> {
        read_tokens(&self.tokens)
            .map_err(|fault| ApiError::new(ApiErrorKind::Failed, ErrorSentence::TokensDamaged { reason: fault.to_string() }))
    }

    /// The caller. `is_unattended`: the page sent the request without its user, so it does not keep the session alive.
    ///
    /// # Errors
    /// That nobody is known, or that too many wrong tokens came from there.
    pub fn caller(&self, peer: &Peer, shown: &Shown, is_unattended: bool) -> Result<Caller, ApiError> {
        let caller = self.find(peer, shown)?;
        if let (false, Some(key)) = (is_unattended, &caller.session)
            && let Some(session) = lock(&self.sessions).get_mut(key)
        {
            session.seen = Instant::now();
        }
        Ok(caller)
    }

    fn find(&self, peer: &Peer, shown: &Shown) -> Result<Caller, ApiError> {
        let from = peer.shown();
        let caller =
            |name: String, role, via| Caller { name, role, via, csrf: None, expires_ms: None, session: None, from: from.clone() };
        if let Some(token) = &shown.token {
            let line = self.line_of(peer, token)?;
            return Ok(caller(line.name, line.role, Via::Token));
        }
        match peer {
            Peer::Unix { uid, gid, .. } => match self.role_of(*uid, *gid)? {
                Some(role) => Ok(caller(user_name(*uid), role, Via::Unix)),
                None => {
                    let group = lock(&self.groups).0;
                    let find = |group| Group::from_gid(Gid::from_raw(group)).ok().flatten();
                    let group = group.and_then(|group| self.users.ask(move || find(group)).flatten());
                    let name = user_name(*uid);
                    let said = match group {
                        None => ErrorSentence::NotAdmitted { name },
                        Some(group) => ErrorSentence::NotInGroup { name, group: group.name },
                    };
                    Err(ApiError::new(ApiErrorKind::Forbidden, said))
                }
            },
            Peer::Tls { certificate, .. } => {
                if let Some(number) = &shown.session
                    && let Some(session) = self.session(number, &from)?
                {
                    return Ok(session);
                }
                let proof = certificate.as_ref().map(|hash| format!("cert:{hash}"));
                let lines = if proof.is_some() { self.lines()? } else { Vec::new() };
                match lines.into_iter().find(|line| proof.as_ref() == Some(&line.proof)) {
                    Some(line) => Ok(caller(line.name, line.role, Via::Certificate)),
                    None => Err(ApiError::new(ApiErrorKind::Unauthorized, ErrorSentence::NoSession {})),
                }
            }
        }
    }

    /// The role of a user of the machine; `gid`: the group that the kernel named.
    fn role_of(&self, uid: u32, gid: u32) -> Result<Option<Role>, ApiError> {
        if is_own(uid) {
            return Ok(Some(Role::Admin));
        }
        Ok(self.role_of_groups(&[self.users.entry(uid)?.groups, vec![gid]].concat()))
    }

    fn role_of_groups(&self, groups: &[u32]) -> Option<Role> {
        let is_in = |group: Option<u32>| group.is_some_and(|group| groups.contains(&group));
        let (group, admin_group) = *lock(&self.groups);
        match (is_in(admin_group), is_in(group)) {
            (true, _) => Some(Role::Admin),
            (false, true) => Some(Role::Operate),
            (false, false) => None,
        }
    }

    /// The account of this number, if it may log in: its name, and its role.
    fn account(&self, uid: u32) -> Result<Option<(String, Role)>, ApiError> {
        let entry = self.users.entry(uid)?;
        let Some(name) = entry.name else { return Ok(None) };
        let role = if is_own(uid) { Some(Role::Admin) } else { self.role_of_groups(&entry.groups) };
        let role = match (self.accounts, role) {
            (SystemAccounts::Off, _) | (SystemAccounts::Groups, None) => None,
            (SystemAccounts::View, None) => Some(Role::View),
            (SystemAccounts::Groups | SystemAccounts::View, role) => role,
        };
        Ok(role.map(|role| (format!("{name} (user {uid})"), role)))
    }

    /// True if the caller can be identified only by asking the machine's directory, which may hang. Such requests wait on threads
    /// of their own, so that all other requests are answered meanwhile.
    pub fn asks_directory(&self, peer: &Peer, shown: &Shown) -> bool {
        match peer {
            _ if shown.token.is_some() => false,
            Peer::Unix { uid, .. } => !is_own(*uid),
            Peer::Tls { .. } => shown.session.as_ref().is_some_and(|number| {
                let sessions = lock(&self.sessions);
                sessions.get(&sha256(number.as_bytes())).is_some_and(|session| matches!(session.by, Bought::Account(_)))
            }),
        }
    }

    /// The line of a token.
    fn line_of(&self, peer: &Peer, token: &str) -> Result<TokenLine, ApiError> {
        let origin = peer.origin();
        lock(&self.wrong).check(&origin)?;
        let proof = sha256(token.as_bytes());
        if let Some(line) = self.lines()?.into_iter().find(|line| line.proof == proof) {
            return Ok(line);
        }
        // An attacker with more addresses than are remembered is slowed by the length of tokens alone.
        lock(&self.wrong).count(origin);
        Err(ApiError::new(ApiErrorKind::Unauthorized, ErrorSentence::TokenUnknown {}))
    }

    /// Counts a password of this peer as a wrong one before it is checked, so that many at a time are no way around the bound.
    /// [`Guard::forgive`] takes a right one back.
    ///
    /// # Errors
    /// That too many wrong ones came from there, or from too many addresses to remember.
    pub fn suspect(&self, peer: &Peer) -> Result<(), ApiError> {
        let mut wrong = lock(&self.wrong);
        wrong.check(&peer.origin())?;
        match wrong.count(peer.origin()) {
            true => Ok(()),
            false => Err(ApiError::new(ApiErrorKind::TooMany, ErrorSentence::TooManyWrongFrom {})),
        }
    }

    /// The last password was right.
    pub fn forgive(&self, peer: &Peer) {
        if let Some((_, count)) = lock(&self.wrong).0.get_mut(&peer.origin()) {
            *count = count.saturating_sub(1);
        }
    }

    /// Begins a session.
    ///
    /// # Errors
    /// When the token is wrong or has begun too many sessions within a minute, or the file of tokens is damaged.
    pub fn begin(&self, peer: &Peer, token: &str) -> Result<Begun, ApiError> {
        let line = self.line_of(peer, token)?;
        let begun = self.open(peer, Bought::Token(line))?;
        begun.ok_or_else(|| ApiError::new(ApiErrorKind::Failed, ErrorSentence::TokenRemoved {}))
    }

    /// Begins a session of an account whose password was right. `None`: it has no role.
    ///
    /// # Errors
    /// When it has begun too many sessions within a minute, or the name service does not answer.
    pub fn begin_account(&self, peer: &Peer, name: &str) -> Result<Option<Begun>, ApiError> {
        let asked = name.to_owned();
        let Some(user) = self.users.ask(move || User::from_name(&asked).ok().flatten()) else {
            return Err(ApiError::new(ApiErrorKind::Failed, ErrorSentence::AccountNotFound {}));
        };
        let Some(user) = user else { return Ok(None) };
        self.open(peer, Bought::Account(user.uid.as_raw()))
    }

    fn open(&self, peer: &Peer, by: Bought) -> Result<Option<Begun>, ApiError> {
        if self.holder(&by)?.is_none() {
            return Ok(None);
        }
        let holder = by.holder();
        let Some(count) = lock(&self.logins).count(holder.clone(), LOGINS_MAX) else {
            let said = ErrorSentence::TooManySessions { name: holder.to_string(), most: LOGINS_MAX };
            return Err(ApiError::new(ApiErrorKind::TooMany, said));
        };
        let (number, now) = (secret(), Instant::now());
        let session = Session { by, csrf: secret(), begun: now, expires_ms: now_ms() + LASTS.as_millis() as u64, seen: now };
        let mut sessions = lock(&self.sessions);
        sessions.retain(|_, session| is_alive(session));
        let is_of_holder = |session: &Session| session.by.holder() == holder;
        let is_full = sessions.values().filter(|session| is_of_holder(session)).count() >= SESSIONS_OF_ONE_MAX;
        if (is_full || sessions.len() >= SESSIONS_MAX)
            && let Some(oldest) = sessions
                .iter()
                .filter(|(_, session)| !is_full || is_of_holder(session))
                .min_by_key(|(_, session)| session.seen)
                .map(|(number, _)| number.clone())
        {
            sessions.remove(&oldest);
        }
        sessions.insert(sha256(number.as_bytes()), session);
        drop(sessions);
        Ok(self.session(&number, &peer.shown())?.map(|caller| Begun { number, caller, count }))
    }

    /// The name and role behind a session, as they are now.
    fn holder(&self, by: &Bought) -> Result<Option<(String, Role)>, ApiError> {
        match by {
            Bought::Token(line) => {
                let same = |now: &TokenLine| now.name == line.name && now.proof == line.proof;
                Ok(self.lines()?.into_iter().find(same).map(|line| (line.name, line.role)))
            }
            Bought::Account(uid) => self.account(*uid),
        }
    }

    fn session(&self, number: &str, from: &str) -> Result<Option<Caller>, ApiError> {
        let key = sha256(number.as_bytes());
        let (by, csrf, expires_ms) = {
            let sessions = lock(&self.sessions);
            let Some(session) = sessions.get(&key).filter(|session| is_alive(session)) else { return Ok(None) };
            (session.by.clone(), session.csrf.clone(), session.expires_ms)
        };
        Ok(self.holder(&by)?.map(|(name, role)| Caller {
            name,
            role,
            via: Via::Session,
            csrf: Some(csrf),
            expires_ms: Some(expires_ms),
            session: Some(key),
            from: from.to_owned(),
        }))
    }

    /// Ends the caller's session, if it has one.
    pub fn end(&self, caller: &Caller) {
        if let Some(key) = &caller.session {
            lock(&self.sessions).remove(key);
        }
    }

    /// True if the caller would still be let in with the same role. To be asked is no use of a session: a page that is open and
    /// left alone ends it.
    pub fn still_knows(&self, peer: &Peer, shown: &Shown, caller: &Caller) -> bool {
        self.find(peer, shown).is_ok_and(|now| now.role == caller.role && now.name == caller.name)
    }
}

/// True for root and the daemon's own user.
fn is_own(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

fn is_alive(session: &Session) -> bool {
    session.seen.elapsed() < IDLE && session.begun.elapsed() < LASTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Api;

    fn guard(lines: &str) -> (tempfile::TempDir, Guard) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tokens");
        std::fs::write(&path, lines).expect("a file");
        (folder, with(&path, None, SystemAccounts::Off))
    }

    /// Before, two daemons behind one proxy, or one tunnel after another at one port, had one name: a login to one ended the
    /// session with the other.
    #[test]
    fn each_daemon_has_a_cookie_of_its_own() {
        let of = |tokens: &str, listen: &str, machine: &str, host: &str| {
            let listen = listen.parse::<std::net::SocketAddr>().into_iter().collect();
            let api = Api { tokens: tokens.into(), ..Api::default() }.options().expect("it is good");
            cookie_of(&ApiOptions { listen, ..api }, machine, host)
        };
        let name = of("/a", "[::]:8443", "m", "h");
        let digits = name.strip_prefix("stria_session_").expect("the name");
        assert!(digits.len() == 8 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()), "{name}");
        assert_eq!(name, of("/a", "[::]:8443", "m", "h"), "the same after a restart");
        for other in [
            of("/b", "[::]:8443", "m", "h"),
            of("/a", "[::]:9443", "m", "h"),
            of("/a", "[::]:8443", "n", "h"),
            of("/a", "", "m", "i"),
        ] {
            assert_ne!(name, other);
        }
    }

    fn with(tokens: &Path, group: Option<u32>, accounts: SystemAccounts) -> Guard {
        let api = Api { tokens: tokens.into(), ..Api::default() };
        Guard::new(&ApiOptions { group, accounts, ..api.options().expect("it is good") })
    }

    fn peer(last: u8) -> Peer {
        Peer::Tls { address: IpAddr::from([192, 0, 2, last]), certificate: None }
    }

    fn token(text: &str) -> Shown {
        Shown { token: Some(text.into()), session: None }
    }

    #[test]
    fn a_token_counts_as_long_as_its_line_stands() {
        let (folder, guard) = guard(&format!("# people\nalice operate {}\n", sha256(b"t0ken")));
        let Begun { number, caller, .. } = guard.begin(&peer(1), "t0ken").expect("it is right");
        assert_eq!((caller.role, caller.via), (Role::Operate, Via::Session));
        let cookie = Shown { token: None, session: Some(number) };
        assert!(guard.still_knows(&peer(1), &cookie, &caller));
        std::fs::write(folder.path().join("tokens"), "").expect("a file");
        assert!(!guard.still_knows(&peer(1), &cookie, &caller));
        assert_eq!(guard.caller(&peer(1), &token("t0ken"), false).expect_err("it is gone").kind, ApiErrorKind::Unauthorized);
    }

    #[test]
    fn a_stream_does_not_keep_a_session_from_being_idle() {
        let (_folder, guard) = guard(&format!("alice operate {}\n", sha256(b"t0ken")));
        let Begun { number, caller, .. } = guard.begin(&peer(1), "t0ken").expect("it is right");
        let cookie = Shown { token: None, session: Some(number) };
        let left = Duration::from_secs(60);
        let leave_alone = || {
            let mut sessions = lock(&guard.sessions);
            let session = sessions.values_mut().next().expect("one");
            session.seen = session.seen.checked_sub(left).expect("the machine runs that long");
        };
        let seen = || lock(&guard.sessions).values().next().expect("one").seen.elapsed();
        leave_alone();
        assert!(guard.still_knows(&peer(1), &cookie, &caller) && seen() >= left);
        assert!(guard.caller(&peer(1), &cookie, true).is_ok() && seen() >= left, "the page asked by itself");
        assert!(guard.caller(&peer(1), &cookie, false).is_ok() && seen() < left, "a request is a use");
    }

    /// A holder with too many sessions loses its least recently used one. Sessions of other holders stay.
    #[test]
    fn a_holder_of_many_sessions_ends_only_its_own() {
        let (_folder, guard) = guard(&format!("ada admin {}\neve view {}\n", sha256(b"a"), sha256(b"e")));
        let cookie = |begun: &Begun| Shown { token: None, session: Some(begun.number.clone()) };
        let ada = guard.begin(&peer(1), "a").expect("it is right");
        let eve: Vec<Begun> = (0..LOGINS_MAX).map(|_| guard.begin(&peer(2), "e").expect("it is right")).collect();
        assert_eq!(guard.begin(&peer(3), "e").err().map(|error| error.kind), Some(ApiErrorKind::TooMany), "from everywhere");
        let living = eve.iter().filter(|begun| guard.caller(&peer(2), &cookie(begun), true).is_ok()).count();
        assert_eq!((living, eve.last().map(|begun| begun.count)), (SESSIONS_OF_ONE_MAX, Some(LOGINS_MAX)));
        assert!(guard.caller(&peer(1), &cookie(&ada), true).is_ok());
    }

    #[test]
    fn wrong_tokens_are_counted_by_origin() {
        let (_folder, guard) = guard(&format!("alice view {}\n", sha256(b"t0ken")));
        for _ in 0..WRONG_MAX {
            assert_eq!(guard.caller(&peer(1), &token("x"), false).expect_err("wrong").kind, ApiErrorKind::Unauthorized);
        }
        assert_eq!(guard.caller(&peer(1), &token("t0ken"), false).expect_err("too many").kind, ApiErrorKind::TooMany);
        assert!(guard.caller(&peer(2), &token("t0ken"), false).is_ok(), "another address is not to blame");
    }

    #[test]
    fn passwords_count_before_they_are_checked() {
        let (_folder, guard) = guard("");
        for _ in 0..WRONG_MAX {
            guard.suspect(&peer(1)).expect("not yet too many");
        }
        assert_eq!(guard.suspect(&peer(1)).expect_err("too many").kind, ApiErrorKind::TooMany);
        guard.forgive(&peer(1));
        assert!(guard.suspect(&peer(1)).is_ok() && guard.suspect(&peer(2)).is_ok());
        // Passwords are shorter than tokens: where no more origins can be remembered, they are not checked.
        for number in 0..PEERS_MAX as u32 {
            let _ = guard.suspect(&Peer::Tls { address: IpAddr::from(number.to_be_bytes()), certificate: None });
        }
        assert_eq!(guard.suspect(&peer(3)).expect_err("no room").kind, ApiErrorKind::TooMany);
    }

    #[test]
    fn accounts_have_the_role_of_their_groups() {
        let nowhere = Path::new("/nowhere");
        let nobody = User::from_name("nobody").expect("a system").expect("every system has it");
        let begun = |group, accounts, name| with(nowhere, group, accounts).begin_account(&peer(1), name).expect("not too many");
        let role = |group, accounts, name| begun(group, accounts, name).map(|begun| begun.caller.role);
        assert_eq!(role(None, SystemAccounts::Groups, "root"), Some(Role::Admin));
        assert_eq!(role(None, SystemAccounts::Off, "root"), None);
        assert_eq!(role(None, SystemAccounts::Groups, "nobody"), None);
        assert_eq!(role(None, SystemAccounts::View, "nobody"), Some(Role::View));
        assert_eq!(role(Some(nobody.gid.as_raw()), SystemAccounts::Groups, "nobody"), Some(Role::Operate));
        assert_eq!(role(None, SystemAccounts::View, "no such account"), None);
    }

    #[test]
    fn requests_are_counted_by_origin_and_origins_are_bounded() {
        let mut counts = Counts::default();
        assert_eq!((0..4).map(|_| counts.count("a".into(), 2)).collect::<Vec<_>>(), [Some(1), Some(2), None, None]);
        assert_eq!(counts.count("b".into(), 2), Some(1), "another one is not to blame");
        for number in 0..2 * ORIGINS_MAX {
            counts.count(number.to_string(), 1);
        }
        assert_eq!((counts.0.len(), counts.count("new".into(), 1)), (ORIGINS_MAX, None));
    }

    /// Goal: while the directory hangs, root and tokens are still let in. Only a user whose groups must be looked up is refused.
    #[test]
    fn a_directory_that_hangs_shuts_out_only_those_who_need_it() {
        fn hangs(_: u32) -> super::super::users::Entry {
            std::thread::sleep(Duration::from_secs(60));
            Default::default()
        }
        let (_folder, mut guard) = guard(&format!("alice operate {}\n", sha256(b"t0ken")));
        guard.users = Users::new(hangs);
        let unix = |uid| Peer::Unix { uid, gid: uid, pid: None };
        let begun = Instant::now();
        assert_eq!(guard.caller(&unix(0), &Shown::default(), false).expect("root").role, Role::Admin);
        assert_eq!(guard.caller(&peer(1), &token("t0ken"), false).expect("a token").role, Role::Operate);
        assert!(begun.elapsed() < Duration::from_secs(1));
        let refused = guard.caller(&unix(54321), &Shown::default(), false).expect_err("nobody knows");
        assert!(refused.kind == ApiErrorKind::Failed && refused.message.contains("name service"), "{}", refused.message);
        let (none, with_token) = (Shown::default(), token("t0ken"));
        let asks = |uid, shown| guard.asks_directory(&unix(uid), shown);
        assert_eq!([asks(0, &none), asks(54321, &none), asks(54321, &with_token)], [false, true, false]);
    }

    #[test]
    fn a_damaged_file_lets_nobody_in() {
        let (_folder, guard) = guard(&format!("alice admin {}\nbob king 12\n", sha256(b"t0ken")));
        // The fault is the server's, so it does not count as a wrong token of this peer.
        for _ in 0..2 * WRONG_MAX {
            let refused = guard.caller(&peer(1), &token("t0ken"), false).expect_err("no line counts");
            assert!(refused.kind == ApiErrorKind::Failed && refused.message.contains("tokens:2:"), "{}", refused.message);
        }
        let nothing = guard.caller(&peer(1), &Shown::default(), false).expect_err("nothing was shown");
        assert_eq!(nothing.kind, ApiErrorKind::Unauthorized, "the login is offered to accounts");
        assert!(read_tokens(Path::new("/nowhere/tokens")).is_ok_and(|lines| lines.is_empty()));
    }
}
