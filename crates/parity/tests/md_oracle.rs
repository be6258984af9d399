//! Parity that the real Linux md wrote: ours must match it on every stripe, and recover any members that one loses.

use harness::{End, Guest};
use stria_parity::{Code, Strip};
use stria_testkit::oracle as harness;

const MEMBER_BYTES: u64 = 12 << 20;
const STRIP_BYTES: usize = 64 << 10;
const PATTERN_BYTES: usize = 6 << 20;

/// (members, parity strips) of the arrays, on disks one after the other.
const ARRAYS: [(usize, usize); 3] = [(3, 1), (4, 2), (8, 2)];

/// The data area of a member, by its superblock: offset 0x80, u64 little-endian, sectors: where data starts.
fn data_area(image: &std::path::Path) -> Vec<u8> {
    let bytes = std::fs::read(image).expect("image");
    assert_eq!(bytes[4096..4100], [0xfc, 0x4e, 0x2b, 0xa9], "an md v1.2 superblock");
    let sector = u64::from_le_bytes(bytes[4096 + 0x80..4096 + 0x88].try_into().unwrap());
    bytes[sector as usize * 512..].to_vec()
}

#[test]
#[cfg_attr(miri, ignore = "starts processes")]
fn parity_is_what_the_kernel_writes() {
    if !harness::wanted() {
        return;
    }
    let disks: usize = ARRAYS.iter().map(|array| array.0).sum();
    let guest = Guest::new("parity", &vec![MEMBER_BYTES; disks]);
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let pattern: Vec<u8> = std::iter::repeat_with(|| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as u8
    })
    .take(PATTERN_BYTES)
    .collect();
    std::fs::write(guest.share().join("pattern"), pattern).expect("pattern");
    let mut script = String::new();
    let mut first = 0;
    for (index, (members, parity)) in ARRAYS.iter().enumerate() {
        let level = if *parity == 1 { 5 } else { 6 };
        let names: Vec<_> = (first..first + members).map(|disk| format!("$D{disk}")).collect();
        first += members;
        script += &format!(
            "mdadm --create /dev/md{index} --run --metadata=1.2 --level={level} --layout=left-symmetric --raid-devices={members} --chunk=64 {}
             dd if=$SHARE/pattern of=/dev/md{index} bs=1M conv=fsync status=none
             mdadm --wait /dev/md{index} || true\n",
            names.join(" ")
        );
    }
    guest.run(End::Stop, &script);

    let mut first = 0;
    for (members, parity_count) in ARRAYS {
        let areas: Vec<_> = (first..first + members).map(|disk| data_area(&guest.disk(disk))).collect();
        first += members;
        let code = Code::new(members - parity_count, parity_count);
        let mut stripes_with_data = 0;
        let stripes = PATTERN_BYTES / STRIP_BYTES / code.data_count();
        for stripe in 0..stripes {
            // Left-symmetric: P walks back from the last member, Q and then the data follow it around.
            let p = members - 1 - stripe % members;
            let strip = |i: usize| {
                let member = (p + if i < code.data_count() { parity_count + i } else { i - code.data_count() }) % members;
                &areas[member][stripe * STRIP_BYTES..][..STRIP_BYTES]
            };
            let data: Vec<_> = (0..code.data_count()).map(strip).collect();
            let parity: Vec<_> = (code.data_count()..members).map(|i| Some(strip(i))).collect();
            let differing = code.check(&data, &parity);
            assert_eq!(differing, 0, "{members} members, stripe {stripe}: parities differ (bit 0: P, bit 1: Q)");
            stripes_with_data += usize::from(data.iter().all(|strip| strip.iter().any(|&b| b != 0)));

            let lost = [stripe % members, (stripe * 3 + 1) % members];
            let lost = if parity_count == 1 || lost[0] == lost[1] { &lost[..1] } else { &lost[..] };
            let mut found = vec![vec![0; STRIP_BYTES]; lost.len()];
            let mut strips: Vec<_> = (0..members).map(|i| Strip::Present(strip(i))).collect();
            for (&i, found) in lost.iter().zip(&mut found) {
                strips[i] = Strip::Lost(found);
            }
            code.recover(&mut strips).expect("within the redundancy");
            for (&i, found) in lost.iter().zip(&found) {
                assert!(found == strip(i), "{members} members, stripe {stripe}: strip {i} came back wrong");
            }
        }
        assert_eq!(stripes_with_data, stripes, "the pattern was meant to fill every stripe");
    }
}
