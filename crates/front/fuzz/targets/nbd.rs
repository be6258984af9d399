//! One hostile connection against handshake and session, guided by coverage. See `stria_front::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|choices: &[u8]| {
    stria_front::fuzz::run(choices);
});
