//! Whether a file that is to be committed is all there.

use crate::error::{Error, ErrorKind, Result};
use crate::store::Receipt;

/// Every chunk of a file of `size` bytes has its receipt.
///
/// # Errors
/// `Usage` with the number of chunks that have none.
pub fn complete(size: u64, chunk: u64, receipts: &[Receipt]) -> Result<()> {
    let count = size.div_ceil(chunk.max(1)).max(1);
    let mut landed: Vec<u32> = receipts.iter().map(|receipt| receipt.index).filter(|index| u64::from(*index) < count).collect();
    landed.sort_unstable();
    landed.dedup();
    match count - landed.len() as u64 {
        0 => Ok(()),
        short => Err(Error::new(ErrorKind::Usage, "commit").because(format!("{short} of its {count} chunks are missing"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chunk_needs_a_receipt_and_no_other_counts() {
        let receipt = |index| Receipt { index, tag: Box::default(), hash: None };
        let of = |indices: &[u32]| indices.iter().copied().map(receipt).collect::<Vec<_>>();
        assert!(complete(25, 10, &of(&[2, 0, 1, 1])).is_ok());
        assert!(complete(0, 10, &of(&[0])).is_ok(), "an empty file has one chunk");
        for short in [&[0, 2][..], &[0, 0, 1], &[0, 1, 3]] {
            assert!(complete(25, 10, &of(short)).is_err_and(|e| e.reason().starts_with("1 of its 3")));
        }
    }
}
