//! Identify Controller as the specification has it, for the controllers of tests: each field by its name, in a place that no
//! other code of this crate names.

/// NVM Express Base Specification 2.0, Identify Controller Data Structure: a field, its first byte, and its length.
const FIELDS: &[(&str, usize, usize)] = &[
    ("FR", 64, 8),
    ("OACS", 256, 2),
    ("ACL", 258, 1),
    ("AERL", 259, 1),
    ("FRMW", 260, 1),
    ("LPA", 261, 1),
    ("ELPE", 262, 1),
    ("NPSS", 263, 1),
    ("AVSCC", 264, 1),
    ("APSTA", 265, 1),
    ("WCTEMP", 266, 2),
    ("CCTEMP", 268, 2),
    ("MTFA", 270, 2),
    ("HMPRE", 272, 4),
    ("HMMIN", 276, 4),
    ("TNVMCAP", 280, 16),
    ("UNVMCAP", 296, 16),
    ("RPMBS", 312, 4),
    ("EDSTT", 316, 2),
    ("DSTO", 318, 1),
    ("FWUG", 319, 1),
    ("KAS", 320, 2),
    ("HCTMA", 322, 2),
    ("MNTMT", 324, 2),
    ("MXTMT", 326, 2),
    ("SANICAP", 328, 4),
    ("FNA", 524, 1),
    ("VWC", 525, 1),
];

/// Writes a field; what is longer than it is refused.
pub fn set(identity: &mut [u8], field: &str, value: &[u8]) {
    let (_, start, length) = FIELDS.iter().find(|(name, ..)| *name == field).expect("a field of the specification");
    assert!(value.len() <= *length, "{field} has {length} bytes");
    identity[*start..start + length].fill(0);
    identity[*start..start + value.len()].copy_from_slice(value);
}

/// Identify Controller: every field that is not given has bytes of its own, so that a read from a wrong place is seen.
pub fn identity(fields: &[(&str, &[u8])]) -> Vec<u8> {
    let mut identity = vec![0; 4096];
    for (index, (_, start, length)) in FIELDS.iter().enumerate() {
        identity[*start..start + length].fill(0xa0 + index as u8);
    }
    fields.iter().for_each(|(field, value)| set(&mut identity, field, value));
    identity
}

#[test]
fn the_fields_follow_one_another() {
    for pair in FIELDS[1..].windows(2).filter(|pair| pair[1].0 != "FNA") {
        assert_eq!(pair[0].1 + pair[0].2, pair[1].1, "{} ends where {} begins", pair[0].0, pair[1].0);
    }
}
