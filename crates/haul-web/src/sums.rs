//! Lists of SHA-256 digests, as sha256sum(1) writes them.

use std::collections::HashMap;

use super::flags::hex;

/// A list is read up to here: some 500,000 names.
pub const MOST_BYTES: u64 = 64 << 20;

/// Digests by the name of the file, as the list has it.
#[derive(Debug, Default)]
pub struct Sums(HashMap<Vec<u8>, [u8; 32]>);

impl Sums {
    /// Lines `DIGEST  NAME`, `DIGEST *NAME` and `SHA256 (NAME) = DIGEST`; others are left out.
    pub fn parse(list: &[u8]) -> Sums {
        let mut sums = HashMap::new();
        for line in list.split(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let digest = |bytes: &[u8]| std::str::from_utf8(bytes).ok().and_then(|text| hex(text).ok());
            let found = match line.strip_prefix(b"SHA256 (") {
                Some(rest) => {
                    let at = rest.windows(4).rposition(|part| part == b") = ");
                    at.and_then(|at| Some((&rest[..at], digest(&rest[at + 4..])?)))
                }
                None => line.split_at_checked(64).and_then(|(sum, name)| {
                    let name = name.strip_prefix(b"  ").or_else(|| name.strip_prefix(b" *"))?;
                    Some((name, digest(sum)?))
                }),
            };
            if let Some((name, sum)) = found {
                sums.insert(name.strip_prefix(b"./").unwrap_or(name).to_vec(), sum);
            }
        }
        Sums(sums)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The digest of a file by its path below the directory, or by its last part alone.
    pub fn of(&self, path: &[u8]) -> Option<[u8; 32]> {
        let leaf = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        self.0.get(path).or_else(|| self.0.get(leaf)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_sha256sum_are_read() {
        let (a, b) = ("ab".repeat(32), "CD".repeat(32));
        let list = format!("{a}  one\r\n{b} *./two words\nSHA256 (d/three) = {a}\n{a} no\n# x\n{}  short\n", &a[..63]);
        let sums = Sums::parse(list.as_bytes());
        assert_eq!(sums.of(b"one"), Some([0xab; 32]));
        assert_eq!(sums.of(b"x/one"), Some([0xab; 32]));
        assert_eq!(sums.of(b"two words"), Some([0xcd; 32]));
        assert_eq!(sums.of(b"d/three"), Some([0xab; 32]));
        assert_eq!((sums.of(b"three"), sums.of(b"no"), sums.of(b"short")), (None, None, None));
    }
}
