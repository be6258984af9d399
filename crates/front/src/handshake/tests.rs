//! Goal: every option is answered as the protocol says, and no bytes make the handshake panic, stall or grow.
//! Method: options are built by hand, fed in pieces, and the replies decoded by hand.

use super::*;
use proptest::prelude::*;

fn exports() -> Vec<Arc<Facts>> {
    let facts = |name: &str, read_only| Facts {
        name: name.into(),
        description: format!("all about {name}"),
        size_bytes: 1 << 20,
        block_min_bytes: 512,
        block_preferred_bytes: 4096,
        payload_bytes_max: 32 << 20,
        read_only,
        rotational: false,
        can_trim: true,
    };
    vec![Arc::new(facts("tank", false)), Arc::new(facts("safe", true))]
}

fn option(option: u32, data: &[u8]) -> Vec<u8> {
    [OPTION_MAGIC.as_slice(), &option.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
}

fn string(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text].concat()
}

fn go(name: &str, wanted: &[u16]) -> Vec<u8> {
    let wanted: Vec<u8> = wanted.iter().flat_map(|kind| kind.to_be_bytes()).collect();
    let data = [string(name.as_bytes()), ((wanted.len() / 2) as u16).to_be_bytes().to_vec(), wanted].concat();
    option(option::GO, &data)
}

fn context(kind: u32, export: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = string(export.as_bytes());
    data.extend((queries.len() as u32).to_be_bytes());
    data.extend(queries.iter().flat_map(|query| string(query.as_bytes())));
    option(kind, &data)
}

/// Feeds the client's flags and `messages`; returns the output behind the greeting, and the last step.
fn haggle(flags: u16, messages: &[Vec<u8>]) -> (Vec<u8>, Step) {
    haggle_over(Security::Plain, flags, messages)
}

fn haggle_over(security: Security, flags: u16, messages: &[Vec<u8>]) -> (Vec<u8>, Step) {
    let mut output = Vec::new();
    let mut handshake = Handshake::new(security, &mut output);
    assert_eq!(output, b"NBDMAGICIHAVEOPT\0\x03");
    output.clear();
    let mut input = u32::from(flags).to_be_bytes().to_vec();
    input.extend(messages.iter().flatten());
    let exports = exports();
    loop {
        let (used, step) = handshake.step(&input, &exports, &mut output);
        input.drain(..used);
        match step {
            Step::Again => {}
            Step::Starved | Step::Close(_) | Step::Agreed(_) | Step::StartTls => return (output, step),
        }
    }
}

/// Option, type and data of each reply.
fn replies(mut output: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let mut replies = Vec::new();
    while !output.is_empty() {
        let mut reader = Reader(output);
        assert_eq!(reader.u64(), Some(OPTION_REPLY_MAGIC));
        let (option, kind) = (reader.u32().expect("option"), reader.u32().expect("type"));
        replies.push((option, kind, reader.string().expect("data").to_vec()));
        output = reader.0;
    }
    replies
}

fn kinds(output: &[u8]) -> Vec<u32> {
    replies(output).into_iter().map(|(_, kind, _)| kind).collect()
}

#[test]
fn export_name_is_answered_with_and_without_padding() {
    for (flags, len) in [(FLAG_FIXED_NEWSTYLE, 134), (FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES, 10), (0, 134)] {
        let (output, step) = haggle(flags, &[option(option::EXPORT_NAME, b"safe")]);
        assert_eq!(output.len(), len);
        assert_eq!(output[..8], (1u64 << 20).to_be_bytes());
        assert_ne!(u16::from_be_bytes([output[8], output[9]]) & transmission::READ_ONLY, 0);
        assert!(matches!(step, Step::Agreed(agreement) if agreement.facts.name == "safe"));
    }
    let (output, step) = haggle(FLAG_FIXED_NEWSTYLE, &[option(option::EXPORT_NAME, b"none")]);
    assert!(output.is_empty() && matches!(step, Step::Close(_)));
}

#[test]
fn go_tells_what_was_asked_for_and_the_block_sizes() {
    let (output, step) = haggle(3, &[go("", &[info::NAME, info::DESCRIPTION, 77])]);
    assert!(matches!(step, Step::Agreed(agreement) if agreement.facts.name == "tank" && !agreement.structured));
    let replies = replies(&output);
    let info = |kind: u16| replies.iter().find(|(_, _, data)| data.starts_with(&kind.to_be_bytes())).expect("information");
    assert_eq!(info(info::NAME).2[2..], *b"tank");
    assert_eq!(info(info::DESCRIPTION).2[2..], *b"all about tank");
    assert_eq!(info(info::BLOCK_SIZE).2, [0, 3, 0, 0, 2, 0, 0, 0, 16, 0, 2, 0, 0, 0]);
    assert_eq!(info(info::EXPORT).2.len(), 12);
    assert_eq!(replies.last().expect("a reply").1, reply::ACK);
}

#[test]
fn df_is_offered_with_structured_replies_only() {
    let flags = |messages: &[Vec<u8>]| {
        let (output, _) = haggle(3, messages);
        let replies = replies(&output);
        let info = replies.iter().find(|(_, kind, data)| *kind == reply::INFO && data[..2] == [0, 0]).expect("INFO_EXPORT");
        u16::from_be_bytes([info.2[10], info.2[11]])
    };
    let structured = option(option::STRUCTURED_REPLY, b"");
    assert_eq!(flags(&[go("tank", &[])]) & transmission::SEND_DF, 0);
    assert_ne!(flags(&[structured, go("tank", &[])]) & transmission::SEND_DF, 0);
}

#[test]
fn what_is_not_known_or_malformed_is_refused_and_haggling_goes_on() {
    let cases = [
        (option(option::STARTTLS, b""), reply::ERR_UNSUP),
        (option(4711, b"what"), reply::ERR_UNSUP),
        (option(option::LIST, b"x"), reply::ERR_INVALID),
        (go("nowhere", &[]), reply::ERR_UNKNOWN),
        (option(option::GO, &[0, 0, 0, 9, b'a', 0, 0]), reply::ERR_INVALID),
        (option(option::GO, &[0, 0, 0, 0, 0, 9]), reply::ERR_INVALID),
        (option(option::GO, &[0, 0, 0, 0, 0, 0, 1]), reply::ERR_INVALID),
        (option(99, &vec![0; OPTION_BYTES_MAX + 1]), reply::ERR_TOO_BIG),
        (context(option::SET_META_CONTEXT, "tank", &["base:allocation"]), reply::ERR_INVALID),
    ];
    for (message, kind) in cases {
        let (output, step) = haggle(3, &[message, option(option::LIST, b"")]);
        assert_eq!(kinds(&output), [kind, reply::SERVER, reply::SERVER, reply::ACK]);
        assert!(matches!(step, Step::Starved));
    }
    let (output, step) = haggle(3, &[option(option::ABORT, b"")]);
    assert!(kinds(&output) == [reply::ACK] && matches!(step, Step::Close(_)));
    let (_, step) = haggle(0, &[option(option::LIST, b"")]);
    assert!(matches!(step, Step::Close(_)), "only EXPORT_NAME without fixed newstyle");
    let (_, step) = haggle(1 << 7, &[]);
    assert!(matches!(step, Step::Close(_)), "unknown client flags");
}

#[test]
fn allocation_context_is_set_for_one_export_and_listed_by_wildcard() {
    let structured = || option(option::STRUCTURED_REPLY, b"");
    let set = |export: &str, query: &str| context(option::SET_META_CONTEXT, export, &[query]);
    let is_accepted = |messages: &[Vec<u8>]| match haggle(3, messages).1 {
        Step::Agreed(agreement) => agreement.allocation,
        step => panic!("no agreement: {step:?}"),
    };
    assert!(is_accepted(&[structured(), set("tank", "base:allocation"), go("tank", &[])]));
    assert!(is_accepted(&[structured(), set("", "base:allocation"), go("tank", &[])]), "the default is the first");
    assert!(!is_accepted(&[structured(), set("safe", "base:allocation"), go("tank", &[])]));
    assert!(!is_accepted(&[structured(), set("tank", "base:"), go("tank", &[])]), "no wildcard in SET");
    assert!(!is_accepted(&[structured(), set("tank", "base:allocation"), set("tank", "x-a:b"), go("tank", &[])]));
    for (queries, count) in [(&[][..], 1), (&["base:"][..], 1), (&["qemu:"][..], 0), (&["base:allocation", "base:"][..], 1)] {
        let (output, _) = haggle(3, &[structured(), context(option::LIST_META_CONTEXT, "tank", queries)]);
        assert_eq!(kinds(&output).iter().filter(|kind| **kind == reply::META_CONTEXT).count(), count, "{queries:?}");
    }
}

#[test]
fn a_count_of_queries_that_lies_is_refused_without_memory_for_it() {
    let mut data = string(b"tank");
    data.extend(u32::MAX.to_be_bytes());
    let (output, _) = haggle(3, &[option(option::STRUCTURED_REPLY, b""), option(option::LIST_META_CONTEXT, &data)]);
    assert_eq!(kinds(&output), [reply::ACK, reply::ERR_INVALID]);
}

/// Plausible messages, whole or damaged, and noise.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..64);
    prop_oneof![
        bytes(),
        (0u32..14, bytes()).prop_map(|(kind, data)| option(kind, &data)),
        (0u32..14, any::<u32>())
            .prop_map(|(kind, len)| [OPTION_MAGIC.as_slice(), &kind.to_be_bytes(), &len.to_be_bytes()].concat()),
        Just(go("tank", &[1, 2, 3])),
        (6u32..11, any::<u32>(), any::<u32>())
            .prop_map(|(kind, a, b)| { option(kind, &[a.to_be_bytes(), *b"tank", b.to_be_bytes()].concat()) }),
    ]
}

proptest! {
    #[test]
    fn any_bytes_end_in_bounded_output(messages in prop::collection::vec(message(), 0..12), piece in 1usize..200) {
        let stream = [u32::from(FLAG_FIXED_NEWSTYLE).to_be_bytes().to_vec(), messages.concat()].concat();
        let (mut output, exports) = (Vec::new(), exports());
        let mut handshake = Handshake::new(Security::Plain, &mut output);
        let mut input = Vec::new();
        'stream: for piece in stream.chunks(piece) {
            input.extend_from_slice(piece);
            loop {
                output.clear();
                let (used, step) = handshake.step(&input, &exports, &mut output);
                prop_assert!(used <= input.len() && output.len() < 1024);
                input.drain(..used);
                match step {
                    Step::Again => prop_assert!(used > 0, "no progress"),
                    Step::Starved => break,
                    Step::Close(_) | Step::Agreed(_) | Step::StartTls => break 'stream,
                }
            }
            prop_assert!(input.len() < OPTION_HEADER_BYTES + OPTION_BYTES_MAX);
        }
    }
}

#[test]
fn nothing_is_told_before_tls_where_it_is_required() {
    let (output, step) = haggle_over(
        Security::Required,
        3,
        &[
            option(option::LIST, b""),
            go("tank", &[]),
            option(option::STRUCTURED_REPLY, b""),
            option(option::STARTTLS, b"x"),
            option(option::STARTTLS, b""),
            option(option::LIST, b""),
        ],
    );
    let required = reply::ERR_TLS_REQD;
    assert_eq!(kinds(&output), [required, required, required, reply::ERR_INVALID, reply::ACK]);
    assert!(matches!(step, Step::StartTls));
    let (output, step) = haggle_over(Security::Required, 3, &[option(option::EXPORT_NAME, b"tank")]);
    assert!(output.is_empty() && matches!(step, Step::Close(_)));
    let (output, step) = haggle_over(Security::Required, 3, &[option(option::ABORT, b"")]);
    assert!(kinds(&output) == [reply::ACK] && matches!(step, Step::Close(reason) if reason.contains("TLS")));
}

#[test]
fn what_was_agreed_before_tls_is_void_behind_it() {
    let mut handshake = Handshake::new(Security::Offered, &mut Vec::new());
    let exports = exports();
    let mut send = |message: &[u8]| {
        let mut output = Vec::new();
        let (used, step) = handshake.step(message, &exports, &mut output);
        assert_eq!(used, message.len());
        (kinds(&output), step)
    };
    let set = || context(option::SET_META_CONTEXT, "tank", &["base:allocation"]);
    send(&3u32.to_be_bytes());
    assert_eq!(send(&option(option::STRUCTURED_REPLY, b"")).0, [reply::ACK]);
    assert_eq!(send(&set()).0, [reply::META_CONTEXT, reply::ACK]);
    assert!(matches!(send(&option(option::STARTTLS, b"")).1, Step::StartTls));
    assert_eq!(send(&set()).0, [reply::ERR_INVALID], "structured replies are void");
    assert_eq!(send(&option(option::STARTTLS, b"")).0, [reply::ERR_INVALID]);
    assert!(matches!(send(&go("tank", &[])).1, Step::Agreed(agreement) if !agreement.structured && !agreement.allocation));
}

#[test]
fn large_blocks_are_for_clients_that_ask_for_their_size() {
    let mut handshake = Handshake::new(Security::Plain, &mut Vec::new());
    let large = Facts { block_min_bytes: 4096, ..(*exports()[0]).clone() };
    let exports = [Arc::new(large)];
    handshake.step(&3u32.to_be_bytes(), &exports, &mut Vec::new());
    let mut send = |message: &[u8]| {
        let mut output = Vec::new();
        handshake.step(message, &exports, &mut output);
        kinds(&output)
    };
    assert_eq!(send(&go("tank", &[info::NAME])), [reply::ERR_BLOCK_SIZE_REQD]);
    assert_eq!(send(&go("tank", &[info::BLOCK_SIZE])).last(), Some(&reply::ACK));
}
