//! Every kernel of this processor against the plain reference: every erasure pattern, odd counts and lengths, unaligned starts.
//! Bytes that are not requested must keep their value, up to the byte before and the byte after.

use crate::kernel::{Kernel, present, pretend_way};
use crate::{Code, DATA_COUNT_MAX, Strip, Unrecoverable, reference};

/// Small and quick, for data only.
struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// Strips that start at their own odd addresses, with guard bytes around.
struct Stripe {
    code: Code,
    bytes: usize,
    buffers: Vec<(Vec<u8>, usize)>,
}

const GUARD: u8 = 0xa5;

impl Stripe {
    /// Random data with the reference's parity.
    fn new(data_count: usize, parity_count: usize, bytes: usize, aligned: bool, random: &mut Random) -> Stripe {
        let buffers = (0..data_count + parity_count)
            .map(|_| {
                let mut buffer = vec![GUARD; 64 + 70 + bytes + 1];
                let start = if aligned { buffer.as_ptr().align_offset(64) } else { 1 + random.below(70) };
                buffer[start..start + bytes].iter_mut().for_each(|b| *b = random.next() as u8);
                (buffer, start)
            })
            .collect();
        let mut stripe = Stripe { code: Code::new(data_count, parity_count), bytes, buffers };
        for j in 0..parity_count {
            let parity = reference::parity(j, &stripe.data());
            stripe.strip_mut(data_count + j).copy_from_slice(&parity);
        }
        stripe
    }
    fn strip(&self, i: usize) -> &[u8] {
        let (buffer, start) = &self.buffers[i];
        &buffer[*start..start + self.bytes]
    }
    fn strip_mut(&mut self, i: usize) -> &mut [u8] {
        let (buffer, start) = &mut self.buffers[i];
        &mut buffer[*start..*start + self.bytes]
    }
    fn data(&self) -> Vec<&[u8]> {
        (0..self.code.data_count()).map(|i| self.strip(i)).collect()
    }
    fn count(&self) -> usize {
        self.buffers.len()
    }
    fn assert_equal(&self, other: &Stripe, what: &str) {
        for i in 0..self.count() {
            assert!(self.buffers[i].0 == other.buffers[i].0, "{what}: strip {i} or a byte beside it is wrong");
        }
    }
    fn copy(&self) -> Stripe {
        Stripe { code: self.code, bytes: self.bytes, buffers: self.buffers.clone() }
    }
    fn split(&mut self) -> (Vec<&[u8]>, Vec<&mut [u8]>) {
        let (bytes, n) = (self.bytes, self.code.data_count());
        let (data, parity) = self.buffers.split_at_mut(n);
        (data.iter().map(|(b, s)| &b[*s..s + bytes]).collect(), parity.iter_mut().map(|(b, s)| &mut b[*s..*s + bytes]).collect())
    }
}

/// (data strips, bytes): every remainder of the kernels' steps, and the limits. Miri takes the short ones.
fn shapes() -> Vec<(usize, usize)> {
    if cfg!(miri) {
        return vec![(1, 64), (2, 128), (3, 320), (4, 576)];
    }
    let mut shapes: Vec<_> = (1..=9).map(|n| (n, 64 * (2 * n - 1))).collect();
    shapes.extend([(8, 0), (8, 64), (8, 4096), (16, 1024 + 192), (22, 512 + 64), (23, 256), (100, 320), (253, 448)]);
    shapes
}

fn each(parity_count: usize, mut test: impl FnMut(&'static Kernel, Stripe, &mut Random)) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for (n, bytes) in shapes() {
        for kernel in present() {
            let stripe = Stripe::new(n, parity_count, bytes, false, &mut random);
            test(kernel, stripe, &mut random);
        }
    }
}

#[test]
fn every_subset_of_parities_is_generated_as_the_reference_does() {
    for parity_count in 0..=3 {
        each(parity_count, |kernel, stripe, random| {
            for wanted in 0..1u8 << parity_count {
                let mut work = stripe.copy();
                let mut expected = stripe.copy();
                for j in 0..parity_count {
                    let fill = random.next() as u8;
                    work.strip_mut(stripe.code.data_count() + j).fill(fill);
                    if wanted >> j & 1 == 0 {
                        expected.strip_mut(stripe.code.data_count() + j).fill(fill);
                    }
                }
                let code = work.code;
                let (data, parity) = work.split();
                let mut parity: Vec<_> =
                    parity.into_iter().enumerate().map(|(j, p)| (wanted >> j & 1 == 1).then_some(p)).collect();
                code.generate_by(kernel, &data, &mut parity);
                let what = format!("{} {code:?} {} bytes, wanted {wanted:b}", kernel.name, stripe.bytes);
                work.assert_equal(&expected, &what);
            }
        });
    }
}

#[test]
fn update_by_difference_ends_where_generation_does() {
    for parity_count in 1..=3 {
        each(parity_count, |kernel, stripe, random| {
            for given in 1..1u8 << parity_count {
                let n = stripe.code.data_count();
                let index = random.below(n);
                let mut expected = stripe.copy();
                expected.strip_mut(index).iter_mut().for_each(|b| *b = random.next() as u8);
                for j in (0..parity_count).filter(|j| given >> j & 1 == 1) {
                    let parity = reference::parity(j, &expected.data());
                    expected.strip_mut(n + j).copy_from_slice(&parity);
                }
                let mut work = stripe.copy();
                let code = work.code;
                let (data, parity) = work.split();
                let mut parity: Vec<_> =
                    parity.into_iter().enumerate().map(|(j, p)| (given >> j & 1 == 1).then_some(p)).collect();
                code.update_by(kernel, index, data[index], expected.strip(index), &mut parity);
                work.strip_mut(index).copy_from_slice(expected.strip(index));
                let what = format!("{} {code:?}, strip {index}, given {given:b}", kernel.name);
                work.assert_equal(&expected, &what);
                // The same in two steps: what was there is taken back, then what comes is added.
                let mut work = stripe.copy();
                for contents in [stripe.strip(index), expected.strip(index)] {
                    let (_, parity) = work.split();
                    let mut parity: Vec<_> =
                        parity.into_iter().enumerate().map(|(j, p)| (given >> j & 1 == 1).then_some(p)).collect();
                    code.add_by(kernel, index, contents, &mut parity);
                }
                work.strip_mut(index).copy_from_slice(expected.strip(index));
                work.assert_equal(&expected, &format!("{what}, added"));
            }
        });
    }
}

#[test]
fn copy_moves_the_data_and_generates_what_generate_does() {
    let mut random = Random(10);
    let shapes: &[(usize, usize)] =
        if cfg!(miri) { &[(2, 128)] } else { &[(1, 64), (4, 576), (5, 4096), (8, 12288), (9, 65536)] };
    for (&(n, bytes), kernel) in shapes.iter().flat_map(|shape| present().map(move |kernel| (shape, kernel))) {
        for (aligned, parity_count) in [(true, 0), (true, 2), (false, 1), (false, 3)] {
            let source = Stripe::new(n, parity_count, bytes, aligned, &mut random);
            let mut target = Stripe::new(n, parity_count, bytes, aligned, &mut random);
            let (data, parity) = target.buffers.split_at_mut(n);
            let mut data: Vec<_> = data.iter_mut().map(|(b, s)| &mut b[*s..*s + bytes]).collect();
            let mut parity: Vec<_> = parity.iter_mut().map(|(b, s)| Some(&mut b[*s..*s + bytes])).collect();
            let mut sums = vec![0; n * (bytes / 4096)];
            let checksums = bytes.is_multiple_of(4096).then_some(&mut sums[..]);
            source.code.copy_and_generate_by(kernel, &source.data(), &mut data, &mut parity, checksums);
            let what = format!("{} {:?} {bytes} bytes", kernel.name, source.code);
            for i in 0..n + parity_count {
                assert!(target.strip(i) == source.strip(i), "{what}: strip {i}");
                let (buffer, start) = &target.buffers[i];
                assert!(buffer[start + bytes..].iter().all(|&b| b == GUARD), "{what}: behind strip {i}");
            }
            let expected: Vec<u32> = source.data().iter().flat_map(|s| s.chunks_exact(4096)).map(crate::crc32c).collect();
            assert!(!bytes.is_multiple_of(4096) || sums == expected, "{what}: checksums");
        }
    }
}

/// Stripes large enough to be timed take one of three paths by how far away they seem; here, each in turn.
#[test]
fn near_or_far_the_result_is_the_same() {
    let mut random = Random(9);
    let bytes = if cfg!(miri) { 576 } else { 16384 + 192 };
    for (kernel, aligned) in present().flat_map(|kernel| [(kernel, true), (kernel, false)]) {
        let stripe = Stripe::new(7, 3, bytes, aligned, &mut random);
        for (prefetch, stream) in [(false, false), (true, false), (false, true), (true, true)] {
            pretend_way(prefetch, stream);
            let what = format!("{}, aligned: {aligned}, prefetch: {prefetch}, stream: {stream}", kernel.name);
            let mut work = stripe.copy();
            let other = stripe.strip(1).to_vec();
            let (data, parity) = work.split();
            let mut parity: Vec<_> = parity.into_iter().map(Some).collect();
            stripe.code.update_by(kernel, 6, data[6], &other, &mut parity);
            work.strip_mut(6).copy_from_slice(&other);
            for j in 0..3 {
                assert!(work.strip(7 + j) == reference::parity(j, &work.data()), "{what}, updated parity {j}");
            }
            for lost in [&[7, 8, 9][..], &[3], &[1, 5], &[0, 2, 6], &[4, 8]] {
                let mut work = stripe.copy();
                lost.iter().for_each(|&i| work.strip_mut(i).fill(0));
                assert_eq!(recover(kernel, &mut work, lost, &[]), Ok(()));
                work.assert_equal(&stripe, &format!("{what}, lost {lost:?}"));
            }
            let mut work = stripe.copy();
            let (data, mut parity) = work.split();
            parity.iter_mut().for_each(|p| p.fill(0));
            let mut parity: Vec<_> = parity.into_iter().map(Some).collect();
            stripe.code.generate_by(kernel, &data, &mut parity);
            work.assert_equal(&stripe, &what);
            let parity: Vec<_> = (7..10).map(|i| Some(work.strip(i))).collect();
            assert_eq!(work.code.check_by(kernel, &work.data(), &parity), 0, "{what}");
        }
    }
}

#[test]
fn check_names_exactly_the_parities_that_differ() {
    each(3, |kernel, mut stripe, random| {
        if stripe.bytes == 0 {
            return;
        }
        let n = stripe.code.data_count();
        for wrong in 0..8u8 {
            let spoiled: Vec<_> = (0..3)
                .map(|j| (wrong >> j & 1 == 1).then(|| (n + j, random.below(stripe.bytes), 1 << random.below(8))))
                .collect();
            for &(strip, at, bit) in spoiled.iter().flatten() {
                stripe.strip_mut(strip)[at] ^= bit;
            }
            for given in 0..8u8 {
                let parity: Vec<_> = (0..3).map(|j| (given >> j & 1 == 1).then(|| stripe.strip(n + j))).collect();
                let differing = stripe.code.check_by(kernel, &stripe.data(), &parity);
                assert_eq!(differing, wrong & given, "{} n {n} given {given:b}", kernel.name);
            }
            for &(strip, at, bit) in spoiled.iter().flatten() {
                stripe.strip_mut(strip)[at] ^= bit;
            }
        }
    });
}

/// Every subset of 0..count with at most `max` members, as sorted lists; for many strips, a random tenth of a thousand.
fn subsets(count: usize, max: usize, random: &mut Random) -> Vec<Vec<usize>> {
    let some = if cfg!(miri) { 6 } else { 100 };
    if count > 12 || cfg!(miri) {
        let mut one = || {
            let mut set: Vec<_> = (0..=random.below(max)).map(|_| random.below(count)).collect();
            set.sort_unstable();
            set.dedup();
            set
        };
        return (0..some).map(|_| one()).collect();
    }
    (0..1usize << count)
        .filter(|set| set.count_ones() as usize <= max)
        .map(|set| (0..count).filter(|i| set >> i & 1 == 1).collect())
        .collect()
}

fn recover(kernel: &Kernel, work: &mut Stripe, lost: &[usize], absent: &[usize]) -> Result<(), Unrecoverable> {
    let (code, bytes) = (work.code, work.bytes);
    let mut strips: Vec<_> = work
        .buffers
        .iter_mut()
        .enumerate()
        .map(|(i, (buffer, start))| {
            let range = *start..*start + bytes;
            match (lost.contains(&i), absent.contains(&i)) {
                (true, _) => Strip::Lost(&mut buffer[range]),
                (_, true) => Strip::Absent,
                _ => Strip::Present(&buffer[range]),
            }
        })
        .collect();
    code.recover_by(kernel, &mut strips)
}

#[test]
fn every_set_of_erasures_within_the_redundancy_is_recovered() {
    for parity_count in 1..=3 {
        each(parity_count, |kernel, stripe, random| {
            for gone in subsets(stripe.count(), parity_count, random) {
                // Each of the gone strips in turn lost (wanted) or absent (not wanted).
                for wanted in 0..1u8 << gone.len() {
                    let (mut lost, mut absent) = (vec![], vec![]);
                    for (i, &strip) in gone.iter().enumerate() {
                        if wanted >> i & 1 == 1 { lost.push(strip) } else { absent.push(strip) }
                    }
                    let mut work = stripe.copy();
                    let mut expected = stripe.copy();
                    for &i in &gone {
                        let fill = random.next() as u8;
                        work.strip_mut(i).fill(fill);
                        if absent.contains(&i) {
                            expected.strip_mut(i).fill(fill);
                        }
                    }
                    let what = format!("{} {:?}, lost {lost:?}, absent {absent:?}", kernel.name, stripe.code);
                    assert_eq!(recover(kernel, &mut work, &lost, &absent), Ok(()), "{what}");
                    work.assert_equal(&expected, &what);
                }
            }
        });
    }
}

#[test]
fn one_erasure_too_many_is_refused_and_nothing_is_written() {
    let mut random = Random(5);
    for parity_count in 0..=3 {
        let stripe = Stripe::new(5, parity_count, 128, false, &mut random);
        for gone in subsets(stripe.count(), parity_count + 1, &mut random) {
            let data_gone = gone.iter().filter(|&&i| i < 5).count();
            if gone.len() != parity_count + 1 || data_gone == 0 {
                continue;
            }
            let mut work = stripe.copy();
            let kernel = present().next().unwrap();
            assert_eq!(recover(kernel, &mut work, &gone, &[]), Err(Unrecoverable), "{gone:?}");
            assert_eq!(recover(kernel, &mut work, &gone[..1], &gone[1..]), Err(Unrecoverable), "{gone:?}");
            assert_eq!(recover(kernel, &mut work, &[], &gone), Ok(()), "nothing is asked for: {gone:?}");
            work.assert_equal(&stripe, "refused");
        }
    }
}

#[test]
fn lost_parities_alone_need_no_other_parity() {
    let mut random = Random(6);
    let stripe = Stripe::new(4, 3, 192, false, &mut random);
    let mut work = stripe.copy();
    work.strip_mut(5).fill(0);
    let kernel = present().next().unwrap();
    assert_eq!(recover(kernel, &mut work, &[5], &[4, 6]), Ok(()));
    work.assert_equal(&stripe, "Q alone");
}

#[test]
fn locate_finds_the_one_wrong_strip_and_does_not_guess() {
    let mut random = Random(7);
    let counts: &[usize] = if cfg!(miri) { &[3] } else { &[1, 2, 3, 8, 253] };
    for &n in counts {
        let bytes = if cfg!(miri) { 128 } else { 4096 + 192 };
        let mut stripe = Stripe::new(n, 2, bytes, false, &mut random);
        let locate = |s: &Stripe| s.code.locate(&s.data(), s.strip(n), s.strip(n + 1));
        assert_eq!(locate(&stripe), None);
        for wrong in 0..n + 2 {
            let original = stripe.strip(wrong).to_vec();
            let at = random.below(bytes);
            stripe.strip_mut(wrong)[at] ^= 0x40;
            assert_eq!(locate(&stripe), Some(wrong), "one byte of strip {wrong} of {n} + 2");
            stripe.strip_mut(wrong).iter_mut().for_each(|b| *b = random.next() as u8);
            assert_eq!(locate(&stripe), Some(wrong), "all of strip {wrong} of {n} + 2");
            stripe.strip_mut(wrong).copy_from_slice(&original);
        }
        if n > 2 {
            for strip in [0, 1] {
                stripe.strip_mut(strip).iter_mut().for_each(|b| *b = random.next() as u8);
            }
            assert_eq!(locate(&stripe), None, "two wrong strips of {n}");
        }
    }
}

/// A code without bytes checks its arguments as any other, computes nothing, and finds all parity right.
#[test]
fn a_code_without_bytes_leaves_all_of_them_alone() {
    for parity_count in 1..=3 {
        let code = Code::new(3, parity_count).without_bytes();
        let (data, mut parity) = (vec![[1; 64]; 3], vec![[7; 64]; parity_count]);
        let strips: Vec<&[u8]> = data.iter().map(|strip| &strip[..]).collect();
        let mut outputs: Vec<Option<&mut [u8]>> = parity.iter_mut().map(|strip| Some(&mut strip[..])).collect();
        code.generate(&strips, &mut outputs);
        code.update(0, strips[0], &[2; 64], &mut outputs);
        code.add(1, strips[1], &mut outputs);
        assert_eq!(parity, vec![[7; 64]; parity_count]);
        assert_eq!(code.check(&strips, &[Some(&parity[0])]), 0);
        let mut lost = [9; 64];
        let present = |strip| Strip::Present(strip);
        let mut all = vec![Strip::Lost(&mut lost), present(strips[1]), present(strips[2])];
        all.extend(parity.iter().map(|strip| present(&strip[..])));
        assert_eq!(code.recover(&mut all), Ok(()));
        drop(all);
        assert_eq!(lost, [9; 64]);
        let mut absent: Vec<Strip<'_>> = parity.iter().map(|_| Strip::Absent).collect();
        absent.splice(0..0, [Strip::Lost(&mut lost), present(strips[1]), present(strips[2])]);
        assert_eq!(code.recover(&mut absent), Err(Unrecoverable));
    }
    assert!(present().all(|kernel| kernel.name != "nothing"), "it is never chosen");
}

#[test]
fn limits_are_those_of_the_algebra() {
    for (parity_count, &max) in DATA_COUNT_MAX.iter().enumerate() {
        assert_eq!(Code::new(max, parity_count).data_count(), max);
        assert!(std::panic::catch_unwind(|| Code::new(max + 1, parity_count)).is_err());
        assert!(std::panic::catch_unwind(|| Code::new(0, parity_count)).is_err());
    }
    assert!(std::panic::catch_unwind(|| Code::new(4, 4)).is_err());
}

#[test]
fn xor_into_adds_any_length() {
    let mut random = Random(8);
    for bytes in (0..200).step_by(if cfg!(miri) { 33 } else { 1 }).chain([1024 + 65]) {
        let source: Vec<u8> = (0..bytes).map(|_| random.next() as u8).collect();
        let before: Vec<u8> = (0..bytes).map(|_| random.next() as u8).collect();
        let mut target = before.clone();
        crate::xor_into(&mut target, &source);
        assert!((0..bytes).all(|i| target[i] == before[i] ^ source[i]));
    }
}

#[test]
fn published_checksums_come_out() {
    // RFC 3720, B.4, and the usual check value of the catalogue.
    assert_eq!(crate::crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(crate::crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(crate::crc32c(&[0xff; 32]), 0x62a8_ab43);
    assert_eq!(crate::crc32c(&std::array::from_fn::<u8, 32, _>(|i| i as u8)), 0x46dd_794e);
}
