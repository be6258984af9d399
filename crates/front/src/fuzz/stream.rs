//! The bytes of a hostile client, made from a string of choices: mostly well-formed, so that the server parses many of them, and
//! then damaged.
//!
//! The choices come from a seed or from a coverage-guided fuzzer. The same choices give the same stream. This file depends on
//! nothing: the tests over real sockets include it, and it uses the protocol's numbers, not the server's constants.

/// Choices, read off a string of bytes; after its end every choice is 0.
pub struct Choices<'a>(pub &'a [u8]);

impl Choices<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&byte, rest)) => {
                self.0 = rest;
                byte
            }
            None => 0,
        }
    }

    pub fn number(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// Below `count`.
    pub fn below(&mut self, count: u64) -> u64 {
        let wide = if count <= 256 { u64::from(self.byte()) } else { self.number() };
        wide % count.max(1)
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// Once in `times`.
    pub fn rarely(&mut self, times: u64) -> bool {
        self.below(times) == times - 1
    }
}

/// The choices of a seed.
pub fn choices_of(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let len = 32 + next() % 1500;
    std::iter::repeat_with(|| (next() >> 24) as u8).take(len as usize).collect()
}

/// The device size for which most offsets are chosen.
pub const SIZE_BYTES: u64 = 1 << 20;
/// The longest payload that is really sent.
const PAYLOAD_BYTES_MAX: u32 = 96 << 10;

/// One client's bytes, from its first to its last.
pub fn stream(choices: &mut Choices) -> Vec<u8> {
    let mut bytes = Vec::new();
    let flags = if choices.rarely(40) { choices.number() as u32 } else { choices.pick(&[3, 3, 3, 3, 3, 3, 1, 1, 0, 2]) };
    bytes.extend(flags.to_be_bytes());
    for _ in 0..choices.below(8) {
        option(choices, &mut bytes);
    }
    let name = if choices.rarely(12) { name(choices) } else { choices.pick(&[&b"tank"[..], b"", b"extra"]).to_vec() };
    if choices.rarely(3) {
        put_option(choices, &mut bytes, 1, &name);
    } else {
        let data = info(choices, &name);
        put_option(choices, &mut bytes, 7, &data);
    }
    for _ in 0..choices.below(64) {
        if choices.is_empty() {
            break;
        }
        request(choices, &mut bytes);
    }
    if choices.rarely(3) {
        header(&mut bytes, 0, 2, 0, 0, 0);
    }
    damage(choices, &mut bytes);
    bytes
}

fn name(choices: &mut Choices) -> Vec<u8> {
    match choices.below(10) {
        0..=6 => choices.pick(&[&b"tank"[..], b"", b"extra"]).to_vec(),
        7 => vec![b'n'; choices.below(20_000) as usize],
        8 => (0..choices.below(40)).map(|_| choices.byte()).collect(),
        _ => b"unknown".to_vec(),
    }
}

fn put_option(choices: &mut Choices, bytes: &mut Vec<u8>, option: u32, data: &[u8]) {
    bytes.extend(b"IHAVEOPT");
    bytes.extend(option.to_be_bytes());
    let len = match choices.below(100) {
        // After their end all choices are 0, which must mean a correct length.
        99 => choices.number() as u32,
        98 => (data.len() as u32).wrapping_sub(choices.below(5) as u32),
        97 => data.len() as u32 + choices.below(5) as u32,
        _ => data.len() as u32,
    };
    bytes.extend(len.to_be_bytes());
    bytes.extend(data);
}

/// The data of `INFO` and `GO`.
fn info(choices: &mut Choices, name: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    let len = if choices.rarely(50) { choices.number() as u32 } else { name.len() as u32 };
    data.extend(len.to_be_bytes());
    data.extend(name);
    let wanted: Vec<u16> = (0..choices.below(6)).map(|_| choices.below(6) as u16).collect();
    let count = if choices.rarely(50) { choices.number() as u16 } else { wanted.len() as u16 };
    data.extend(count.to_be_bytes());
    data.extend(wanted.iter().flat_map(|kind| kind.to_be_bytes()));
    data
}

/// The data of the meta context options.
fn contexts(choices: &mut Choices) -> Vec<u8> {
    let name = name(choices);
    let mut data = Vec::new();
    data.extend((name.len() as u32).to_be_bytes());
    data.extend(&name);
    let queries: Vec<&[u8]> = (0..choices.below(5))
        .map(|_| choices.pick(&[&b"base:allocation"[..], b"base:", b"", b"qemu:dirty-bitmap:x", b":"]))
        .collect();
    let count = if choices.rarely(12) { choices.number() as u32 } else { queries.len() as u32 };
    data.extend(count.to_be_bytes());
    for query in queries {
        let len = if choices.rarely(16) { choices.number() as u32 } else { query.len() as u32 };
        data.extend(len.to_be_bytes());
        data.extend(query);
    }
    data
}

fn option(choices: &mut Choices, bytes: &mut Vec<u8>) {
    let kind = choices.pick(&[8, 8, 8, 8, 10, 10, 10, 10, 9, 6, 6, 3, 3, 5, 2, 11, 7, 0, 1]);
    let data = match kind {
        6 => {
            let name = name(choices);
            info(choices, &name)
        }
        9 | 10 => contexts(choices),
        // An early end is rare, so that most streams get further.
        1 | 2 | 7 if !choices.rarely(20) => return,
        7 => info(choices, b"tank"),
        1 => name(choices),
        _ if choices.rarely(6) => vec![7; choices.below(70_000) as usize],
        _ => Vec::new(),
    };
    put_option(choices, bytes, kind, &data);
}

fn header(bytes: &mut Vec<u8>, flags: u16, command: u16, cookie: u64, offset_bytes: u64, length_bytes: u32) {
    bytes.extend(0x2560_9513_u32.to_be_bytes());
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset_bytes.to_be_bytes());
    bytes.extend(length_bytes.to_be_bytes());
}

fn request(choices: &mut Choices, bytes: &mut Vec<u8>) {
    let command = match choices.below(32) {
        0 => choices.number() as u16,
        1 => 5,
        2 => 2 * u16::from(choices.rarely(8)),
        _ => choices.pick(&[0, 0, 0, 1, 1, 1, 3, 4, 6, 7]),
    };
    let flags = match choices.below(12) {
        0 => choices.number() as u16,
        1 => 1 << choices.below(16),
        2..=4 => choices.pick(&[1, 2, 4, 8, 16, 18]),
        _ => 0,
    };
    let length = match choices.below(16) {
        0 => choices.number() as u32,
        1 => choices.pick(&[0, u32::MAX, u32::MAX - 511, 1 << 31, 32 << 20, (32 << 20) + 512]),
        2 => choices.below(70_000) as u32,
        _ => (choices.below(64) as u32 + 1) * choices.pick(&[512, 512, 4096, 1024]),
    };
    let offset = match choices.below(16) {
        0 => choices.number(),
        1 => choices.pick(&[u64::MAX, u64::MAX - 511, SIZE_BYTES, SIZE_BYTES - 512, 1 << 63]),
        2 => choices.below(SIZE_BYTES),
        _ => choices.below(SIZE_BYTES / 4096) * 4096,
    };
    let (offset, length) = match command {
        3 if !choices.rarely(4) => (0, 0),
        _ => (offset, length),
    };
    let cookie = if choices.rarely(4) { 7 } else { choices.number() };
    header(bytes, flags, command, cookie, offset, length);
    if command == 1 {
        bytes.resize(bytes.len() + length.min(PAYLOAD_BYTES_MAX) as usize, choices.byte());
    }
}

fn damage(choices: &mut Choices, bytes: &mut Vec<u8>) {
    if choices.rarely(5) {
        for _ in 0..=choices.below(4) {
            let at = choices.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << choices.below(8);
        }
    }
    match choices.below(16) {
        15 => bytes.truncate(choices.below(bytes.len() as u64 + 1) as usize),
        14 => {
            // A part is left out or doubled.
            let from = choices.below(bytes.len() as u64) as usize;
            let len = (choices.below(200) as usize).min(bytes.len() - from);
            let part: Vec<u8> = bytes.splice(from..from + len, []).collect();
            if choices.rarely(2) {
                bytes.splice(from..from, [&part[..], &part].concat());
            }
        }
        _ => {}
    }
}
