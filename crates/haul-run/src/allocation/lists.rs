//! Slurm's short forms: counts per node (`48(x2),24`) and names of nodes (`n[01-03,7],login`). Pure.

/// More nodes than any cluster has: a list that names more is not read.
const MOST_NODES: usize = 1 << 16;

/// A count for each node, with repetitions: `48(x2),24`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(Vec<(u32, u32)>);

impl Counts {
    /// `None` for anything else than such a list.
    pub fn parse(text: &str) -> Option<Counts> {
        let one = |part: &str| match part.trim().split_once("(x") {
            Some((count, times)) => Some((count.parse().ok()?, times.strip_suffix(')')?.parse().ok()?)),
            None => Some((part.trim().parse().ok()?, 1)),
        };
        text.split(',').map(one).collect::<Option<Vec<_>>>().map(Counts)
    }

    /// That of one node, the first being 0.
    pub fn at(&self, node: u32) -> Option<u32> {
        let mut before = 0u64;
        self.0.iter().find_map(|(count, times)| {
            before += u64::from(*times);
            (u64::from(node) < before).then_some(*count)
        })
    }

    pub fn nodes(&self) -> u64 {
        self.0.iter().map(|(_, times)| u64::from(*times)).sum()
    }
}

/// The names of a list of nodes, in its order. `None` for a list that is broken or has too many.
pub fn nodes(list: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for part in outside_brackets(list)? {
        if part.is_empty() {
            continue;
        }
        names.extend(expand(part)?);
        if names.len() > MOST_NODES {
            return None;
        }
    }
    Some(names)
}

/// Splits at the commas that are in no brackets.
fn outside_brackets(list: &str) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0u32);
    for (at, letter) in list.char_indices() {
        match letter {
            '[' if depth == 0 => depth = 1,
            ']' if depth == 1 => depth = 0,
            '[' | ']' => return None,
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    (depth == 0).then_some(parts)
}

/// `n[01-02]-ib[0,5]`: each bracket with each, the last one fastest.
fn expand(part: &str) -> Option<Vec<String>> {
    let Some((head, rest)) = part.split_once('[') else { return Some(vec![part.trim().to_string()]) };
    let (inside, tail) = rest.split_once(']')?;
    let (numbers, tails) = (numbers(inside)?, expand(tail)?);
    if numbers.len().checked_mul(tails.len())? > MOST_NODES {
        return None;
    }
    Some(numbers.iter().flat_map(|number| tails.iter().map(move |tail| format!("{}{number}{tail}", head.trim_start()))).collect())
}

/// `01-03,7`: padded as the first number of a range is.
fn numbers(inside: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for part in inside.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let width = first.len();
        let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
        if last < first || last - first >= MOST_NODES as u64 {
            return None;
        }
        all.extend((first..=last).map(|number| format!("{number:0width$}")));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_nodes_are_read_with_repetitions() {
        let counts = Counts::parse("48(x2),24").unwrap();
        assert_eq!([0, 1, 2, 3].map(|node| counts.at(node)), [Some(48), Some(48), Some(24), None]);
        assert_eq!(counts.nodes(), 3);
        assert_eq!(Counts::parse("4").unwrap().at(0), Some(4));
        assert_eq!(Counts::parse("1,2(x4000000000),3").unwrap().at(4_000_000_001), Some(3));
        for broken in ["", "x", "4(x", "4(x2", "4(2)", "4,,4", "-1", "4(x-1)"] {
            assert_eq!(Counts::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn lists_of_nodes_are_expanded() {
        let list = |text| nodes(text).unwrap().join(" ");
        assert_eq!(list("n1"), "n1");
        assert_eq!(list("n[01-03,7],login"), "n01 n02 n03 n7 login");
        assert_eq!(list("a[1-2]-ib[0,5],b"), "a1-ib0 a1-ib5 a2-ib0 a2-ib5 b");
        assert_eq!(list("n[098-101]"), "n098 n099 n100 n101");
        assert_eq!(list(""), "");
        for broken in ["n[1", "n1]", "n[[1]]", "n[2-1]", "n[a]", "n[]", "n[1-99999999999]", "n[0-9999][0-9999]"] {
            assert_eq!(nodes(broken), None, "{broken}");
        }
    }
}
