//! Shell patterns over bytes, as rsync's filter rules read them.
//!
//! | pattern | matches |
//! |---|---|
//! | `?` | one byte, not `/` |
//! | `*` | any run of bytes without `/` |
//! | `**` (or more stars) | any run of bytes |
//! | `[a-z]`, `[!a-z]`, `[^a-z]`, `[[:alpha:]]` | one byte of a set, never `/` |
//! | `\c` | the byte c |
//!
//! A pattern that cannot be read (an open bracket, an unknown class name, a last backslash) matches nothing;
//! it is no error, because it is none for rsync.

/// A set of bytes, one bit each.
type Set = [u64; 4];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// `?`
    One,
    Set(Box<Set>),
    /// `*`
    Star,
    /// `**`
    Stars,
}

impl Token {
    /// Not for the stars.
    fn takes(&self, byte: u8) -> bool {
        match self {
            Token::Byte(b) => *b == byte,
            Token::One => byte != b'/',
            Token::Set(set) => contains(set, byte),
            Token::Star | Token::Stars => false,
        }
    }
}

/// A pattern made ready for many matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    tokens: Vec<Token>,
    /// The pattern could not be read: no text matches.
    broken: bool,
}

impl Glob {
    pub fn new(pattern: &[u8]) -> Glob {
        match compile(pattern) {
            Some(tokens) => Glob { tokens, broken: false },
            None => Glob { tokens: Vec::new(), broken: true },
        }
    }

    /// The pattern could not be read, and matches nothing.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether the whole text matches. Time is at most the text's length squared times the pattern's length,
    /// whatever the stars.
    pub fn matches(&self, text: &[u8]) -> bool {
        if self.broken {
            return false;
        }
        // Most names fail here: `*.o` asks for an `o` at the end.
        if let Some(last) = self.tokens.last()
            && !matches!(last, Token::Star | Token::Stars)
            && !text.last().is_some_and(|&byte| last.takes(byte))
        {
            return false;
        }
        self.search(text)
    }

    /// Tries the shortest run for each star and lengthens the latest on failure. Going back beyond the latest `*` and `**` finds
    /// nothing new: what is between two stars matches as far left as possible, and a slash that stops a `*` stops it however much
    /// an earlier one took.
    fn search(&self, text: &[u8]) -> bool {
        let (mut token, mut at) = (0, 0);
        // Where to go on after the star, and what is the first byte it has not taken.
        let mut star: Option<(usize, usize)> = None;
        let mut stars: Option<(usize, usize)> = None;
        loop {
            match self.tokens.get(token) {
                Some(Token::Star) => {
                    token += 1;
                    star = Some((token, at));
                    continue;
                }
                Some(Token::Stars) => {
                    token += 1;
                    if token == self.tokens.len() {
                        return true;
                    }
                    stars = Some((token, at));
                    star = None;
                    continue;
                }
                Some(other) if text.get(at).is_some_and(|&byte| other.takes(byte)) => {
                    token += 1;
                    at += 1;
                    continue;
                }
                None if at == text.len() => return true,
                _ => {}
            }
            if let Some((after, from)) = star
                && text.get(from).is_some_and(|&byte| byte != b'/')
            {
                star = Some((after, from + 1));
                (token, at) = (after, from + 1);
            } else if let Some((after, from)) = stars
                && from < text.len()
            {
                star = None;
                stars = Some((after, from + 1));
                (token, at) = (after, from + 1);
            } else {
                return false;
            }
        }
    }
}

fn compile(pattern: &[u8]) -> Option<Vec<Token>> {
    let mut tokens = Vec::with_capacity(pattern.len());
    let mut at = 0;
    while let Some(&byte) = pattern.get(at) {
        at += 1;
        tokens.push(match byte {
            b'\\' => {
                at += 1;
                Token::Byte(*pattern.get(at - 1)?)
            }
            b'?' => Token::One,
            b'*' => {
                let run = pattern[at..].iter().take_while(|&&b| b == b'*').count();
                at += run;
                if run == 0 { Token::Star } else { Token::Stars }
            }
            b'[' => {
                let (set, end) = bracket(pattern, at)?;
                at = end;
                Token::Set(Box::new(set))
            }
            byte => Token::Byte(byte),
        });
    }
    Some(tokens)
}

/// The set that starts at `at`, just behind its `[`, and where the pattern goes on behind the `]`.
fn bracket(pattern: &[u8], mut at: usize) -> Option<(Set, usize)> {
    let mut set = Set::default();
    let negated = matches!(pattern.get(at), Some(b'!' | b'^'));
    if negated {
        at += 1;
    }
    // The byte that a following `-` would start a range from: none at the start, behind a range or a class.
    let mut previous = None;
    loop {
        let byte = *pattern.get(at)?;
        at += 1;
        previous = match byte {
            b'\\' => {
                let byte = *pattern.get(at)?;
                at += 1;
                insert(&mut set, byte, byte);
                Some(byte)
            }
            b'-' if previous.is_some() && pattern.get(at).is_some_and(|&b| b != b']') => {
                if pattern[at] == b'\\' {
                    at += 1;
                }
                insert(&mut set, previous?, *pattern.get(at)?);
                at += 1;
                None
            }
            b'[' if pattern.get(at) == Some(&b':') => {
                let inside = &pattern[at + 1..];
                let length = inside.iter().position(|&b| b == b']')?;
                match inside[..length].strip_suffix(b":") {
                    Some(class) => {
                        let member = class_named(class)?;
                        (0..0x80).filter(member).for_each(|byte| insert(&mut set, byte, byte));
                        at += length + 2;
                        None
                    }
                    None => {
                        insert(&mut set, b'[', b'[');
                        Some(b'[')
                    }
                }
            }
            byte => {
                insert(&mut set, byte, byte);
                Some(byte)
            }
        };
        // Only now: a `]` in the first place is a member.
        if *pattern.get(at)? == b']' {
            at += 1;
            break;
        }
    }
    if negated {
        set = set.map(|word| !word);
    }
    remove(&mut set, b'/');
    Some((set, at))
}

/// The bytes of a class; none beyond ASCII belongs to any, as in a UTF-8 locale.
fn class_named(name: &[u8]) -> Option<fn(&u8) -> bool> {
    Some(match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| matches!(byte, b' '..=b'~'),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    })
}

fn insert(set: &mut Set, first: u8, last: u8) {
    for byte in first..=last {
        set[usize::from(byte) / 64] |= 1 << (byte % 64);
    }
}

fn remove(set: &mut Set, byte: u8) {
    set[usize::from(byte) / 64] &= !(1 << (byte % 64));
}

fn contains(set: &Set, byte: u8) -> bool {
    set[usize::from(byte) / 64] & (1 << (byte % 64)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pattern, texts that match, texts that do not.
    type Row = (&'static str, &'static [&'static str], &'static [&'static str]);

    const TABLE: &[Row] = &[
        ("", &[""], &["a"]),
        ("foo", &["foo"], &["", "fo", "fooo", "Foo"]),
        ("?", &["a", "?"], &["", "/", "ab"]),
        ("*", &["", "a", "a.b"], &["/", "a/b"]),
        ("**", &["", "a", "a/b", "/"], &[]),
        ("***", &["", "a/b"], &[]),
        ("*f", &["f", "xf"], &["", "x/f", "fx"]),
        ("**f", &["f", "x/f", "ff/f"], &["fx"]),
        ("foo*bar*", &["foobar", "fooxbary"], &["foo/bar", "fooba"]),
        ("*ob*a*r*", &["foobar", "obar", "oobxaxrx"], &["ob/ar", "oba"]),
        ("*a*a*b", &["aab", "xaxaxb", "aaab"], &["ab", "aa/b"]),
        ("a*/b", &["a/b", "axx/b"], &["a/x/b", "ab"]),
        ("a**/b", &["a/b", "ax/y/b"], &["ab"]),
        ("**/*a*b", &["/ab", "x/y/zaxb", "x/a/ab"], &["ab", "x/a/b"]),
        ("a**b*c/d", &["abc/d", "a/b/bc/d", "ab/bxc/d"], &["ab/c/d", "a/c/d"]),
        ("**/x*/**/y", &["a/x/y/y", "/x1/b/y"], &["x/y", "a/x/y"]),
        ("foo/*", &["foo/", "foo/a"], &["foo/a/b", "foo"]),
        ("\\*", &["*"], &["\\*", "a"]),
        ("a\\b?", &["abx"], &["a\\bx"]),
        ("a?\\", &[], &["ax", "ax\\"]),
        ("[ab]", &["a", "b"], &["c", "", "ab"]),
        ("[!ab]", &["c", "!"], &["a", "b", "/"]),
        ("[^ab]", &["c", "^"], &["a"]),
        ("[a-c]x", &["ax", "bx", "cx"], &["dx", "-x"]),
        ("[c-a]", &["c"], &["a", "b"]),
        ("[-a]", &["-", "a"], &["b"]),
        ("[a-]", &["-", "a"], &["b"]),
        ("[a-c-e]", &["a", "b", "c", "-", "e"], &["d"]),
        ("[]a]", &["]", "a"], &["b"]),
        ("[!]a]", &["b"], &["]", "a"]),
        ("[]-a]", &["]", "^", "_", "`", "a"], &["-", "b"]),
        ("[\\]]", &["]"], &["\\"]),
        ("[a\\-c]", &["a", "-", "c"], &["b", "\\"]),
        ("[a-\\c]", &["a", "b", "c"], &["\\", "d"]),
        ("[[:digit:]x]", &["7", "x"], &["y", ":", "["]),
        ("[![:space:]]", &["x"], &[" ", "\t", "\u{b}", "/"]),
        ("[[:upper:][:digit:]-z]", &["A", "5", "-", "z"], &["a"]),
        ("[[:nosuch:]]", &[], &["a", ":", "["]),
        ("[[::]]", &[], &["a", ":"]),
        ("[[:]", &["[", ":"], &["a"]),
        ("[[:a]", &["[", ":", "a"], &["b"]),
        ("[abc", &[], &["a", "[abc"]),
        ("[", &[], &["["]),
        ("[]", &[], &["[]", ""]),
        ("a[/]b", &[], &["a/b"]),
        ("[--0]", &["-", ".", "0"], &["/", "1"]),
        (
            "-*-*-*-*-*-*-12-*-*-*-m-*-*-*",
            &["-adobe-courier-bold-o-normal--12-120-75-75-m-70-iso8859-1"],
            &["-adobe-courier-bold-o-normal--12-120-75-75-X-70-iso8859-1"],
        ),
    ];

    #[test]
    fn table() {
        for (pattern, good, bad) in TABLE {
            let glob = Glob::new(pattern.as_bytes());
            for text in *good {
                assert!(glob.matches(text.as_bytes()), "{pattern:?} must match {text:?}");
            }
            for text in *bad {
                assert!(!glob.matches(text.as_bytes()), "{pattern:?} must not match {text:?}");
            }
        }
    }

    #[test]
    fn bytes_beyond_utf8() {
        assert!(Glob::new(b"?[\x80-\xff]*").matches(b"\xc3\xa9\xff"));
        assert!(!Glob::new(b"[[:alpha:]]").matches(b"\xe9"));
        assert!(Glob::new(b"[![:alpha:]]").matches(b"\xe9"));
        assert!(Glob::new(b"[\x00-\xff]").matches(b"\xff"));
    }

    #[test]
    fn many_stars_end_soon() {
        let text = vec![b'a'; 4000];
        assert!(!Glob::new(&[b"*a".repeat(200), b"b*".to_vec()].concat()).matches(&text));
        assert!(!Glob::new(&[b"**a".repeat(200), b"b**".to_vec()].concat()).matches(&text));
    }

    /// The meaning of a pattern in the fewest words, exponential in the stars.
    fn slow(tokens: &[Token], text: &[u8]) -> bool {
        match tokens.split_first() {
            None => text.is_empty(),
            Some((star @ (Token::Star | Token::Stars), rest)) => {
                let most = if *star == Token::Stars { text.len() } else { text.iter().position(|&b| b == b'/').unwrap_or(text.len()) };
                (0..=most).any(|taken| slow(rest, &text[taken..]))
            }
            Some((token, rest)) => text.first().is_some_and(|&byte| token.takes(byte)) && slow(rest, &text[1..]),
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { cases: 4_000, failure_persistence: None, ..Default::default() })]
        #[test]
        fn equals_the_slow_meaning(pattern in "[ab/?*]{0,9}|[ab/*]{0,12}", text in "[ab/]{0,12}") {
            let glob = Glob::new(pattern.as_bytes());
            proptest::prop_assert_eq!(glob.matches(text.as_bytes()), slow(&glob.tokens, text.as_bytes()));
        }

        #[test]
        fn never_panics(pattern in proptest::collection::vec(proptest::sample::select(b"[]!^-\\:a*?/\xff".to_vec()), 0..12), text in "[a/:-]{0,6}") {
            let _any = Glob::new(&pattern).matches(text.as_bytes());
        }
    }
}
