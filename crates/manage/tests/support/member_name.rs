//! The name of an array, as other programs and machines write it to its members. It stands apart from `support`, because the
//! tools' tests, which use that, do not know md.

use std::fs::File;
use std::os::unix::fs::FileExt;
use stria_format::md::Superblock;

/// Makes `name` the name of the array on this member.
pub fn rename(image: &str, name: &str) {
    let file = File::options().read(true).write(true).open(image).expect("an image");
    let mut bytes = vec![0; 4096];
    file.read_exact_at(&mut bytes, 4096).expect("it reads");
    let mut superblock = Superblock::parse(&bytes, 8, file.metadata().expect("an image").len() / 512).expect("a member");
    superblock.header.set_name = [0; 32];
    superblock.header.set_name[..name.len()].copy_from_slice(name.as_bytes());
    file.write_all_at(&superblock.encode(), 4096).expect("it writes");
}
