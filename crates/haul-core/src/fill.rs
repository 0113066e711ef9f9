//! A buffer filled from a reader that may give less than is asked for.

use std::io::{self, Read};

use crate::error::{Error, ErrorKind, Result};

/// Reads until the buffer is full or the end; says how many bytes came.
///
/// # Errors
/// What the reader answered, but not that it was interrupted.
pub fn fill(from: &mut (impl Read + ?Sized), into: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < into.len() {
        match from.read(&mut into[got..]) {
            Ok(0) => break,
            Ok(count) => got += count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}

/// The same of content that has so many bytes.
///
/// # Errors
/// `Changed` where it ends before; what the reader answered.
pub fn fill_whole(from: &mut (impl Read + ?Sized), into: &mut [u8]) -> Result<()> {
    match fill(from, into).map_err(|e| Error::from_io(e, "read"))? {
        count if count == into.len() => Ok(()),
        _ => Err(Error::new(ErrorKind::Changed, "read").because("it ended before its size")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One byte at a time, with interruptions between.
    struct Slow<'a>(&'a [u8], bool);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 { Err(io::ErrorKind::Interrupted.into()) } else { self.0.read(&mut into[..1]) }
        }
    }

    #[test]
    fn a_buffer_is_filled_however_little_comes_at_a_time() {
        let mut buffer = [0; 3];
        assert_eq!(fill(&mut Slow(b"abcd", false), &mut buffer).unwrap(), 3);
        assert_eq!(&buffer, b"abc");
        assert_eq!(fill(&mut Slow(b"ab", false), &mut buffer).unwrap(), 2);
        assert!(fill_whole(&mut Slow(b"abc", false), &mut buffer).is_ok());
        assert_eq!(fill_whole(&mut Slow(b"ab", false), &mut buffer).unwrap_err().kind(), ErrorKind::Changed);
    }
}
