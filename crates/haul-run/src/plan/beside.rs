//! Which objects of a listing stand beside a directory of their name: `a` where a later key is `a/b`.

/// Keys in order, each held until it is known.
#[derive(Default)]
pub struct Beside {
    /// Each begins with the one before it.
    held: Vec<Vec<u8>>,
}

impl Beside {
    /// Takes the next key of all that there are, and `gives` those of which it is known with it.
    pub fn pass(&mut self, key: &[u8], gives: &mut dyn FnMut(&[u8], bool)) {
        while let Some(last) = self.held.last() {
            let next = key.strip_prefix(&last[..]).and_then(|behind| behind.first().copied());
            match next {
                // Keys below it may follow: some bytes come before a slash.
                Some(byte) if byte < b'/' => break,
                next => gives(last, next == Some(b'/')),
            }
            self.held.pop();
        }
    }

    /// Holds a key that was passed.
    pub fn hold(&mut self, key: &[u8]) {
        self.held.push(key.to_vec());
    }

    /// No keys follow.
    pub fn finish(mut self, gives: &mut dyn FnMut(&[u8], bool)) {
        while let Some(last) = self.held.pop() {
            gives(&last, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn found(keys: &BTreeSet<Vec<u8>>) -> BTreeMap<Vec<u8>, bool> {
        let (mut beside, mut found) = (Beside::default(), BTreeMap::new());
        for key in keys {
            beside.pass(key, &mut |key, is_beside| assert!(found.insert(key.to_vec(), is_beside).is_none(), "it is given twice"));
            beside.hold(key);
        }
        beside.finish(&mut |key, is_beside| assert!(found.insert(key.to_vec(), is_beside).is_none(), "it is given twice"));
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn each_key_is_given_once_and_right(keys in prop::collection::btree_set("[ab!/0]{1,5}", 0..30)) {
            let keys: BTreeSet<Vec<u8>> = keys.into_iter().map(String::into_bytes).collect();
            let expected = keys.iter().map(|key| {
                let below = [&key[..], b"/"].concat();
                (key.clone(), keys.iter().any(|other| other.starts_with(&below)))
            });
            prop_assert_eq!(found(&keys), expected.collect());
        }
    }
}
