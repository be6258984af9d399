//! Lines of a text file from an untrusted source: plain or packed, read one by one, each of bounded length.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Error, Read};
use std::path::Path;

/// A line of a request has up to 200 bytes, and blkparse adds the name of a process.
const LINE_BYTES_MAX: usize = 64 << 10;
/// 64 KiB: a trace of blktrace has a file for each processor, up to 4,096, which are read at once.
const BUFFER_BYTES: usize = 64 << 10;
/// The bytes that are unpacked before the ratio is checked, and the largest ratio: text of traces shrinks to a tenth, endless
/// repeats to a thousandth.
const UNPACKED_FREE: u64 = 64 << 20;
const RATIO_MAX: u64 = 200;

/// Counts the bytes read from a packed file.
struct Counted<R> {
    inner: R,
    count: std::rc::Rc<std::cell::Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.count.set(self.count.get() + read as u64);
        Ok(read)
    }
}

/// Unpacks a file, until its ratio is absurd.
struct Unpacked<R: Read> {
    inner: flate2::read::MultiGzDecoder<Counted<R>>,
    packed: std::rc::Rc<std::cell::Cell<u64>>,
    unpacked: u64,
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.unpacked += read as u64;
        if self.unpacked > UNPACKED_FREE && self.unpacked / RATIO_MAX > self.packed.get() {
            let problem = format!(
                "it unpacks to more than {RATIO_MAX} times its size, which is unlikely for a trace; if it is one, unpack it first"
            );
            return Err(Error::other(problem));
        }
        Ok(read)
    }
}

/// Opens a plain file, unpacking it if its name ends in `.gz`.
pub(crate) fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
    let file: File = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?.into();
    if !file.metadata()?.is_file() {
        return Err(Error::other("it is not a plain file, but a trace is read more than once"));
    }
    Ok(if path.extension().is_some_and(|extension| extension == "gz") {
        let packed = std::rc::Rc::default();
        let counted = Counted { inner: file, count: std::rc::Rc::clone(&packed) };
        Box::new(BufReader::new(Unpacked { inner: flate2::read::MultiGzDecoder::new(counted), packed, unpacked: 0 }))
    } else {
        Box::new(BufReader::with_capacity(BUFFER_BYTES, file))
    })
}

/// The next line without its end; `None` at the end of the file.
pub(crate) fn next<'a>(file: &mut dyn BufRead, line: &'a mut Vec<u8>) -> io::Result<Option<&'a str>> {
    line.clear();
    file.take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.len() > LINE_BYTES_MAX {
        return Err(Error::other(format!("a line is longer than {} KiB", LINE_BYTES_MAX >> 10)));
    }
    let text = std::str::from_utf8(line).map_err(|_| Error::other("a line is not text"))?;
    Ok(Some(text.trim_end_matches(['\n', '\r'])))
}

/// All lines of a file.
pub(crate) fn each(path: &Path, take: &mut dyn FnMut(&str)) -> io::Result<()> {
    let (mut file, mut line) = (open(path)?, Vec::new());
    while let Some(line) = next(&mut *file, &mut line)? {
        take(line);
    }
    Ok(())
}
