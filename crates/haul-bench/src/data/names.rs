//! What files and directories are called.

use super::order::{Order, mix};

/// The longest name of usual file systems, in bytes.
const LONGEST: usize = 255;

#[derive(Clone, Debug)]
pub struct Names {
    seed: u64,
    /// Percent of names that programs trip over.
    odd: u64,
    files: Style,
    dirs: Style,
}

#[derive(Clone, Debug)]
enum Style {
    /// A letter and the number, with as many digits as the last one needs.
    Numbered(char, usize),
    /// Lengths (bytes, how many of them and of all shorter ones), dealt out in an order.
    Lengths(Vec<(u8, u64)>, Order),
}

impl Names {
    pub fn new(seed: u64, odd: u32, entries: u64, dirs: u64) -> Names {
        let style = |letter, count: u64| Style::Numbered(letter, count.saturating_sub(1).max(1).ilog10() as usize + 1);
        Names { seed, odd: u64::from(odd.min(100)), files: style('f', entries), dirs: style('d', dirs) }
    }

    /// With the lengths of a real tree's names, (bytes, how many) of files and of directories.
    pub fn with_lengths(self, [files, dirs]: &[Vec<(u8, u64)>; 2]) -> Names {
        let style = |lengths: &[(u8, u64)], salt: u64, before: Style| {
            let sums: Vec<(u8, u64)> = lengths
                .iter()
                .scan(0, |sum, (length, many)| {
                    *sum += many;
                    Some((*length, *sum))
                })
                .collect();
            let sum = sums.last().map_or(0, |(_, sum)| *sum);
            if sum == 0 { before } else { Style::Lengths(sums, Order::new(sum, self.seed ^ salt)) }
        };
        Names { files: style(files, 1, self.files.clone()), dirs: style(dirs, 2, self.dirs.clone()), ..self }
    }

    /// Of entry `number` of the set, which is the `nth` of its directory.
    pub fn file(&self, number: u64, nth: u64) -> Vec<u8> {
        self.name(&self.files, number, nth, 0)
    }

    /// Of directory `number` of the set, which comes behind `nth` other names in its own.
    pub fn dir(&self, number: u64, nth: u64) -> Vec<u8> {
        self.name(&self.dirs, number, nth, 1 << 63)
    }

    fn name(&self, style: &Style, number: u64, nth: u64, salt: u64) -> Vec<u8> {
        let plain = match style {
            Style::Numbered(letter, digits) => format!("{letter}{number:0digits$}"),
            Style::Lengths(sums, order) => {
                let rank = order.place(number % sums.last().map_or(1, |(_, sum)| *sum));
                let at = sums.partition_point(|(_, sum)| *sum <= rank);
                padded(nth, sums.get(at).map_or(8, |(length, _)| *length).into())
            }
        };
        let drawn = mix(self.seed ^ mix(number ^ salt));
        if drawn % 100 >= self.odd { plain.into_bytes() } else { odd(plain, drawn / 100) }
    }
}

/// A number with so many bytes: no two numbers give the same, and one that needs more has more.
fn padded(number: u64, length: usize) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut digits = Vec::new();
    let mut rest = number;
    loop {
        digits.push(DIGITS[(rest % 36) as usize]);
        rest /= 36;
        if rest == 0 {
            break;
        }
    }
    let mut name: String = digits.iter().rev().map(|digit| char::from(*digit)).collect();
    if name.len() < length {
        name.push('_');
        let more = length - name.len();
        name.extend((0..more).map(|at| char::from(b'a' + (at % 26) as u8)));
    }
    name
}

/// The name with characters that break careless programs. An "=" separates them, so that different names stay different.
fn odd(plain: String, drawn: u64) -> Vec<u8> {
    let around: (&[u8], &[u8]) = match drawn % 14 {
        0 => (b"-rf =", b""),
        1 => (b"--delete=", b""),
        2 => (b" =", b"= "),
        3 => (b"two\nlines=", b""),
        4 => (b"=", b"=tab\t"),
        5 => (b"\x1b[31mred=", b"=\x1b[0m\x07"),
        6 => (b"not utf-8 \xff\xfe=", b""),
        7 => (b"latin caf\xe9=", b""),
        8 => ("\u{e9}=".as_bytes(), "= \u{1f69a} \u{202e}txt".as_bytes()),
        9 => (b"$(id);`id`=", b"=&|<>*?"),
        10 => (b"host:", b"=:80"),
        11 => (b"back\\slash=", b"=\"quoted' "),
        12 => (b"100%2F..=", b"=."),
        _ => (b"255=", b"="),
    };
    let mut name = [around.0, plain.as_bytes(), around.1].concat();
    if drawn % 14 == 13 {
        name.resize(LONGEST.max(name.len()), b'x');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_name_is_there_twice_and_every_one_can_be_made() {
        let lengths = [vec![(1, 50), (9, 1000), (200, 7)], vec![(3, 5)]];
        for odd in [0, 50, 100] {
            for names in [Names::new(3, odd, 2000, 40), Names::new(3, odd, 2000, 40).with_lengths(&lengths)] {
                let files = (0..2000).map(|n| names.file(n, n));
                let all: HashSet<Vec<u8>> = files.chain((0..40).map(|n| names.dir(n, 2000 + n))).collect();
                assert_eq!(all.len(), 2040);
                assert!(all.iter().all(|name| haul_core::entry::check_leaf(name).is_ok() && name.len() <= 255));
            }
        }
    }
}
