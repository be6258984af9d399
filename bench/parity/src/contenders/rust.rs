//! The two Reed–Solomon crates, for eight data strips: neither computes RAID-6's code, and both are far off.

use reed_solomon_erasure::galois_8::ReedSolomon;
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

use super::{Contender, contender, lost};

const N: usize = 8;

pub fn of(op: &str, n: usize, bytes: usize) -> Vec<Contender> {
    if n != N {
        return vec![];
    }
    let mut all = match op {
        "P" | "PQ" | "PQR" => {
            let count = op.len();
            let code = ReedSolomon::new(N, count).unwrap();
            let mut encoder = ReedSolomonEncoder::new(N, count, bytes).unwrap();
            vec![
                contender("reed-solomon-erasure", move |s| {
                    let data: [&[u8]; N] = std::array::from_fn(|i| s.read(i));
                    let mut parity: [&mut [u8]; 3] = std::array::from_fn(|j| s.write(N + j));
                    code.encode_sep(&data, &mut parity[..count]).unwrap();
                }),
                contender("reed-solomon-simd", move |s| {
                    (0..N).for_each(|i| encoder.add_original_shard(s.read(i)).unwrap());
                    let result = encoder.encode().unwrap();
                    (0..count).for_each(|j| s.write(N + j).copy_from_slice(result.recovery(j).unwrap()));
                }),
            ]
        }
        "recover2" => {
            let code = ReedSolomon::new(N, 2).unwrap();
            let mut decoder = ReedSolomonDecoder::new(N, 2, bytes).unwrap();
            vec![
                contender("reed-solomon-erasure", move |s| {
                    let mut strips: [(&mut [u8], bool); N + 2] = std::array::from_fn(|i| (s.write(i), !lost(N).contains(&i)));
                    code.reconstruct_data(&mut strips).unwrap();
                }),
                contender("reed-solomon-simd", move |s| {
                    for i in (0..N).filter(|i| !lost(N).contains(i)) {
                        decoder.add_original_shard(i, s.read(i)).unwrap();
                    }
                    (0..2).for_each(|j| decoder.add_recovery_shard(j, s.read(N + j)).unwrap());
                    let result = decoder.decode().unwrap();
                    lost(N).iter().for_each(|&i| s.write(i).copy_from_slice(result.restored_original(i).unwrap()));
                }),
            ]
        }
        _ => vec![],
    };
    all.iter_mut().for_each(|c| c.same_code = false);
    all
}
