//! Numbers in as few bytes as they need: LEB128, seven bits a byte, the lowest first; the last byte has its high bit clear.

/// Bytes of the largest number.
pub const MOST: usize = 10;

pub fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number from the front. `None`, and nothing is taken, where it does not end or does not fit.
#[inline]
pub fn take(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for (index, &byte) in from.iter().take(MOST).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if index == MOST - 1 && bits > 1 {
            return None;
        }
        number |= bits << (7 * index);
        if byte < 0x80 {
            *from = &from[index + 1..];
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_what_does_not_fit_is_none() {
        for number in [0, 1, 0x7f, 0x80, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            assert!(bytes.len() <= MOST);
            assert_eq!(take(&mut &bytes[..bytes.len() - 1]), None, "cut short");
            bytes.push(7);
            let mut from = &bytes[..];
            assert_eq!((take(&mut from), from), (Some(number), &[7][..]));
        }
        assert_eq!(take(&mut &[[0xff; 9].as_slice(), &[2]].concat()[..]), None, "65 bits");
        assert_eq!(take(&mut &[0xff; 11][..]), None);
    }
}
