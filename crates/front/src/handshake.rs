//! Option haggling (fixed newstyle) as a pure state machine: bytes in, bytes out, then an agreement.
//!
//! It has no socket and no clock. Memory is bounded: an option's data must fit into [`OPTION_BYTES_MAX`]; longer data is
//! skipped as it arrives and refused. The caller passes on no more input while replies are unsent, so that a client which never
//! reads cannot make `output` grow.

use crate::export::Facts;
use crate::wire::*;
use std::sync::Arc;
use stria_block::SECTOR_BYTES;

/// 16 KiB: the longest name, three times over, with queries. The caller's buffer holds it with its header.
pub const OPTION_BYTES_MAX: usize = 16 << 10;

/// The agreement of client and server for the transmission.
#[derive(Debug)]
pub struct Agreement {
    pub facts: Arc<Facts>,
    /// Structured replies.
    pub structured: bool,
    /// The context `base:allocation`.
    pub allocation: bool,
}

/// Whether a client uses TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// The server has none.
    Plain,
    /// The client may use it.
    Offered,
    /// The client must start it before anything else.
    Required,
    /// The client uses it.
    Active,
}

/// The next action after a step.
#[derive(Debug)]
pub enum Step {
    /// Something was consumed: step again.
    Again,
    /// Send the output, then start TLS. Any other bytes that have arrived were unprotected, and must not be used.
    StartTls,
    /// The input is too short: step again when there is more.
    Starved,
    /// Send the output, then start the transmission; the rest of the input belongs to it.
    Agreed(Agreement),
    /// Send the output, then close, for this reason.
    Close(&'static str),
}

#[derive(Debug)]
enum State {
    ClientFlags,
    Options,
    /// The data of an option that is too long; it is refused when all of it has passed.
    Skipping {
        option: u32,
        left: u64,
    },
}

/// One client's haggling.
#[derive(Debug)]
pub struct Handshake {
    security: Security,
    state: State,
    fixed: bool,
    no_zeroes: bool,
    structured: bool,
    /// The export for which `base:allocation` was set last.
    allocation: Option<Arc<Facts>>,
    /// The reason why no client may begin a transmission now.
    refusal: Option<&'static str>,
    /// Names of exports that are gone for good.
    stopped: Vec<String>,
}

impl Handshake {
    /// A handshake, and the greeting to send first.
    pub fn new(security: Security, output: &mut Vec<u8>) -> Self {
        output.extend_from_slice(INIT_MAGIC);
        output.extend_from_slice(OPTION_MAGIC);
        output.extend_from_slice(&(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
        Self {
            security,
            state: State::ClientFlags,
            fixed: false,
            no_zeroes: false,
            structured: false,
            allocation: None,
            refusal: None,
            stopped: Vec::new(),
        }
    }

    /// Sets the reason why the client may not begin a transmission; `None`: it may.
    pub fn set_refusal(&mut self, refusal: Option<&'static str>) {
        self.refusal = refusal;
    }

    /// Sets the names of exports that do not come back.
    pub fn set_stopped(&mut self, names: Vec<String>) {
        self.stopped = names;
    }

    /// Refuses an option for an export that is not there.
    fn refuse_name(&self, name: &[u8], replies: &mut Replies) {
        match self.stopped.iter().any(|stopped| stopped.as_bytes() == name) {
            true => replies.error(reply::ERR_SHUTDOWN, "the array was stopped"),
            false => replies.error(reply::ERR_UNKNOWN, "there is no export of this name"),
        }
    }

    /// Takes at most one message from the front of `input`. Returns how much of it was consumed. `exports`: the present
    /// exports, the default first.
    pub fn step(&mut self, input: &[u8], exports: &[Arc<Facts>], output: &mut Vec<u8>) -> (usize, Step) {
        match self.state {
            State::ClientFlags => {
                let Some(flags) = Reader(input).u32() else { return (0, Step::Starved) };
                if flags & !u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES) != 0 {
                    return (4, Step::Close("unknown client flags"));
                }
                self.fixed = flags & u32::from(FLAG_FIXED_NEWSTYLE) != 0;
                self.no_zeroes = flags & u32::from(FLAG_NO_ZEROES) != 0;
                self.state = State::Options;
                (4, Step::Again)
            }
            State::Skipping { option, left } => {
                let skipped = left.min(input.len() as u64);
                if skipped < left {
                    self.state = State::Skipping { option, left: left - skipped };
                    return (skipped as usize, Step::Starved);
                }
                self.state = State::Options;
                Replies { option, output }.error(reply::ERR_TOO_BIG, "the option's data is too long");
                (skipped as usize, Step::Again)
            }
            State::Options => self.option(input, exports, output),
        }
    }

    fn option(&mut self, input: &[u8], exports: &[Arc<Facts>], output: &mut Vec<u8>) -> (usize, Step) {
        let mut reader = Reader(input);
        if input.len() >= OPTION_MAGIC.len() && !input.starts_with(OPTION_MAGIC) {
            return (0, Step::Close("wrong option magic"));
        }
        let (Some(_), Some(option), Some(len)) = (reader.take(OPTION_MAGIC.len()), reader.u32(), reader.u32()) else {
            return (0, Step::Starved);
        };
        if !self.fixed && option != option::EXPORT_NAME {
            return (0, Step::Close("an option other than EXPORT_NAME from a client that is not fixed newstyle"));
        }
        if len as usize > OPTION_BYTES_MAX {
            if option == option::EXPORT_NAME {
                return (0, Step::Close("an export name that is too long"));
            }
            self.state = State::Skipping { option, left: u64::from(len) };
            return (OPTION_HEADER_BYTES, Step::Again);
        }
        let Some(data) = reader.take(len as usize) else { return (0, Step::Starved) };
        (OPTION_HEADER_BYTES + data.len(), self.answer(option, data, exports, output))
    }

    fn answer(&mut self, option: u32, data: &[u8], exports: &[Arc<Facts>], output: &mut Vec<u8>) -> Step {
        let mut replies = Replies { option, output };
        match option {
            option::ABORT | option::STARTTLS => {}
            option::EXPORT_NAME if self.security == Security::Required => {
                return Step::Close("it asked for an export without TLS, which this server requires");
            }
            _ if self.security == Security::Required => {
                replies.error(reply::ERR_TLS_REQD, "this server requires TLS; start it first");
                return Step::Again;
            }
            _ => {}
        }
        match option {
            option::EXPORT_NAME => return self.export_name(data, exports, output),
            option::ABORT => {
                replies.ack();
                return Step::Close(match self.security {
                    Security::Required => "it gave up without TLS, which this server requires",
                    _ => "the client aborted the handshake",
                });
            }
            option::LIST | option::STRUCTURED_REPLY | option::STARTTLS if !data.is_empty() => {
                replies.error(reply::ERR_INVALID, "this option takes no data");
            }
            option::LIST => {
                for facts in exports {
                    let name = facts.name.as_bytes();
                    let len = (name.len() as u32).to_be_bytes();
                    replies.put(reply::SERVER, &[&len, name, facts.description.as_bytes()]);
                }
                replies.ack();
            }
            option::STRUCTURED_REPLY => {
                self.structured = true;
                replies.ack();
            }
            option::INFO | option::GO => match parse_info(data) {
                None => replies.error(reply::ERR_INVALID, "the lengths inside the option do not fit its data"),
                Some((name, wanted)) => match (find(exports, name), self.refusal) {
                    (Some(_), Some(refusal)) if option == option::GO => replies.error(reply::ERR_POLICY, refusal),
                    (Some(facts), _) if facts.block_min_bytes > SECTOR_BYTES as u32 && !wants(wanted, info::BLOCK_SIZE) => {
                        replies.error(reply::ERR_BLOCK_SIZE_REQD, "requests must be multiples of a block; ask for its size");
                    }
                    (None, _) => self.refuse_name(name, &mut replies),
                    (Some(facts), _) => {
                        replies.info(&facts, self.structured, wanted);
                        replies.ack();
                        if option == option::GO {
                            return self.accept(facts);
                        }
                    }
                },
            },
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.meta_context(data, exports, &mut replies),
            option::STARTTLS => match self.security {
                Security::Plain => replies.error(reply::ERR_UNSUP, "this server does not speak TLS; continue without it"),
                Security::Active => replies.error(reply::ERR_INVALID, "TLS has been started already"),
                Security::Offered | Security::Required => {
                    // Nothing protected the options before TLS, so an attacker may have changed them. They are discarded.
                    (self.security, self.structured, self.allocation) = (Security::Active, false, None);
                    replies.ack();
                    return Step::StartTls;
                }
            },
            _ => replies.error(reply::ERR_UNSUP, "this server does not know the option"),
        }
        Step::Again
    }

    /// The oldest way to agree, without a reply.
    fn export_name(&mut self, name: &[u8], exports: &[Arc<Facts>], output: &mut Vec<u8>) -> Step {
        let Some(facts) = find(exports, name) else { return Step::Close("unknown export") };
        if let Some(refusal) = self.refusal {
            return Step::Close(refusal);
        }
        output.extend_from_slice(&facts.size_bytes.to_be_bytes());
        output.extend_from_slice(&facts.flags(self.structured).to_be_bytes());
        if !self.no_zeroes {
            output.extend_from_slice(&[0; EXPORT_NAME_PADDING_BYTES]);
        }
        self.accept(facts)
    }

    fn meta_context(&mut self, data: &[u8], exports: &[Arc<Facts>], replies: &mut Replies) {
        let set = replies.option == option::SET_META_CONTEXT;
        if set {
            // "Issuing this command replaces all previously-set metadata contexts (including when this command fails)."
            self.allocation = None;
        }
        if !self.structured {
            return replies.error(reply::ERR_INVALID, "ask for structured replies first");
        }
        let Some((name, queries)) = parse_meta_context(data) else {
            return replies.error(reply::ERR_INVALID, "the lengths inside the option do not fit its data");
        };
        let Some(facts) = find(exports, name) else {
            return self.refuse_name(name, replies);
        };
        let listed = |query: &&[u8]| !set && *query == b"base:".as_slice();
        let named = |query: &&[u8]| *query == ALLOCATION_CONTEXT.as_bytes();
        if (queries.is_empty() && !set) || queries.iter().any(|query| listed(query) || named(query)) {
            let id = if set { ALLOCATION_CONTEXT_ID } else { 0 };
            replies.put(reply::META_CONTEXT, &[&id.to_be_bytes(), ALLOCATION_CONTEXT.as_bytes()]);
            if set {
                self.allocation = Some(facts);
            }
        }
        replies.ack();
    }

    fn accept(&mut self, facts: Arc<Facts>) -> Step {
        // A context is valid only for the export that it was set for.
        let allocation = self.allocation.take().is_some_and(|set| Arc::ptr_eq(&set, &facts));
        Step::Agreed(Agreement { structured: self.structured, allocation, facts })
    }
}

/// The export of this name. The first one replaces a missing default.
fn find(exports: &[Arc<Facts>], name: &[u8]) -> Option<Arc<Facts>> {
    let named = exports.iter().find(|facts| facts.name.as_bytes() == name);
    named.or_else(|| exports.first().filter(|_| name.is_empty())).cloned()
}

/// Name and wanted information types (16 bits each) of `OPT_INFO` and `OPT_GO`.
fn parse_info(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut reader = Reader(data);
    let name = reader.string()?;
    let count = reader.u16()?;
    let wanted = reader.take(usize::from(count) * 2)?;
    reader.0.is_empty().then_some((name, wanted))
}

/// True if a type is among wanted information types.
fn wants(wanted: &[u8], kind: u16) -> bool {
    wanted.chunks_exact(2).any(|bytes| bytes == kind.to_be_bytes())
}

/// Name and queries of the meta context options.
fn parse_meta_context(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let mut reader = Reader(data);
    let name = reader.string()?;
    // The count is not trusted: each query takes at least four bytes of the data.
    let count = reader.u32()?;
    let mut queries = Vec::new();
    for _ in 0..count {
        queries.push(reader.string()?);
    }
    reader.0.is_empty().then_some((name, queries))
}

/// Replies to one option.
struct Replies<'a> {
    option: u32,
    output: &'a mut Vec<u8>,
}

impl Replies<'_> {
    fn put(&mut self, kind: u32, parts: &[&[u8]]) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        self.output.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
        for field in [self.option, kind, len as u32] {
            self.output.extend_from_slice(&field.to_be_bytes());
        }
        self.output.extend(parts.iter().copied().flatten());
    }

    fn ack(&mut self) {
        self.put(reply::ACK, &[]);
    }

    fn error(&mut self, kind: u32, message: &str) {
        self.put(kind, &[message.as_bytes()]);
    }

    fn info(&mut self, facts: &Facts, structured: bool, wanted: &[u8]) {
        let flags = facts.flags(structured);
        self.put(reply::INFO, &[&info::EXPORT.to_be_bytes(), &facts.size_bytes.to_be_bytes(), &flags.to_be_bytes()]);
        // Sent without being asked for as well: a client that does not understand it must ignore it.
        let sizes = [facts.block_min_bytes, facts.block_preferred_bytes, facts.payload_bytes_max].map(u32::to_be_bytes);
        self.put(reply::INFO, &[&info::BLOCK_SIZE.to_be_bytes(), sizes.as_flattened()]);
        for (kind, text) in [(info::NAME, &facts.name), (info::DESCRIPTION, &facts.description)] {
            if wants(wanted, kind) {
                self.put(reply::INFO, &[&kind.to_be_bytes(), text.as_bytes()]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
