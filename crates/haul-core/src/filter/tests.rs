use super::*;

fn filter(lines: &[&str]) -> Filter {
    let mut filter = Filter::default();
    for line in lines {
        filter.rule(line.as_bytes()).unwrap();
    }
    filter
}

/// An exclude pattern; paths that it excludes; paths that it does not. A path that ends in `/` is a directory.
type Row = (&'static str, &'static [&'static str], &'static [&'static str]);

const TABLE: &[Row] = &[
    ("foo", &["foo", "foo/", "a/foo", "a/b/foo/"], &["food", "a/food", "foo/a"]),
    ("foo/", &["foo/", "a/foo/"], &["foo", "a/foo"]),
    ("/foo", &["foo", "foo/"], &["a/foo"]),
    ("/foo/", &["foo/"], &["foo", "a/foo/"]),
    ("foo/bar", &["foo/bar", "a/foo/bar"], &["bar", "foo/a/bar", "afoo/bar"]),
    ("/foo/bar", &["foo/bar"], &["a/foo/bar"]),
    ("foo/bar/", &["foo/bar/"], &["foo/bar"]),
    ("foo/*/bar", &["foo/x/bar", "a/foo/x/bar"], &["foo/bar", "foo/x/y/bar"]),
    ("/foo/*", &["foo/x", "foo/x/"], &["foo/", "foo/x/y", "a/foo/x"]),
    ("/foo/**", &["foo/x", "foo/x/y"], &["foo/", "a/foo/x"]),
    ("foo/**", &["foo/x", "a/foo/x/y"], &["foo/", "food/x"]),
    ("foo/***", &["foo/", "a/foo/", "foo/x", "a/foo/x/y/"], &["foo", "food/"]),
    ("/foo/***", &["foo/", "foo/x/y"], &["a/foo/", "foo"]),
    ("**/foo", &["foo", "a/foo", "a/b/foo/"], &["afoo"]),
    ("**foo", &["foo", "afoo", "a/b/xfoo"], &["foo/a"]),
    ("a**b", &["ab", "a/x/b", "x/a/y/b", "x/ab"], &["xa/b", "a/x"]),
    ("/a**b", &["ab", "a/x/b"], &["x/ab"]),
    ("*.o", &["x.o", ".o", "a/x.o"], &["x.o/y", "x.oo"]),
    ("*", &["a", "a/b/"], &[]),
    ("*/", &["a/", "a/b/"], &["a", "a/b"]),
    ("a?c", &["abc", "x/a?c"], &["a/c", "ac"]),
    ("[ab]c/d", &["ac/d", "x/bc/d"], &["cc/d"]),
    ("a\\b", &["a\\b"], &["ab"]),
    ("a\\b*", &["abc", "ab"], &["a\\b"]),
    ("\\*", &["*"], &["a", "\\*"]),
    ("[", &[], &["[", "a"]),
    ("[a", &[], &["[a", "a"]),
    ("/", &[], &["a", "a/"]),
    ("//a", &[], &["a", "x/a"]),
    ("a//", &[], &["a", "a/"]),
    ("***", &["a", "a/b", "a/"], &[]),
    ("a b", &["a b"], &["a"]),
    (" a", &[" a"], &["a"]),
    ("é", &["é", "x/é"], &["e"]),
    ("a/b/c", &["a/b/c"], &["b/c", "c"]),
    ("*/*/c", &["a/b/c", "x/a/b/c"], &["b/c"]),
];

#[test]
fn table() {
    for (pattern, excluded, included) in TABLE {
        let mut filter = Filter::default();
        filter.exclude(pattern.as_bytes()).unwrap();
        let negated = filter_of_negated(pattern);
        for (paths, verdict) in [(excluded, Verdict::Exclude), (included, Verdict::Include)] {
            for path in *paths {
                let is_dir = path.ends_with('/');
                let path = path.trim_end_matches('/').as_bytes();
                assert_eq!(filter.check(path, is_dir), verdict, "exclude {pattern:?} of {:?}", show(path));
                assert_ne!(negated.check(path, is_dir), verdict, "negated {pattern:?} of {:?}", show(path));
            }
        }
    }
}

fn filter_of_negated(pattern: &str) -> Filter {
    filter(&[&format!("-! {pattern}")])
}

#[test]
fn the_first_rule_that_matches_decides() {
    let filter = filter(&["+ *.c", "- /keep/*.c", "+ */", "- *"]);
    for (path, is_dir, verdict) in [
        ("keep/a.c", false, Verdict::Include),
        ("a.h", false, Verdict::Exclude),
        ("deep/down", true, Verdict::Include),
        ("", true, Verdict::Include),
    ] {
        assert_eq!(filter.check(path.as_bytes(), is_dir), verdict, "{path}");
    }
    assert_eq!(Filter::default().check(b"anything", false), Verdict::Include);
}

#[test]
fn names_are_bytes() {
    let mut filter = Filter::default();
    filter.exclude(b"\xff?").unwrap();
    assert_eq!(filter.check(b"a/\xff\xfe", false), Verdict::Exclude);
    assert_eq!(filter.check_with(b"\xff", b"\xff\n", true), Verdict::Exclude);
    assert_eq!(filter.check(b"\xfe\xff", false), Verdict::Include);
}

#[test]
fn forms_of_a_rule() {
    for (line, a, b) in [
        ("- a", Verdict::Exclude, Verdict::Include),
        ("-_a", Verdict::Exclude, Verdict::Include),
        ("-, a", Verdict::Exclude, Verdict::Include),
        ("exclude a", Verdict::Exclude, Verdict::Include),
        ("exclude_a", Verdict::Exclude, Verdict::Include),
        ("-! a", Verdict::Include, Verdict::Exclude),
        ("-,! a", Verdict::Include, Verdict::Exclude),
        ("exclude,! a", Verdict::Include, Verdict::Exclude),
        ("exclude, a", Verdict::Exclude, Verdict::Include),
        ("-  a", Verdict::Include, Verdict::Include),
    ] {
        let filter = filter(&[line]);
        assert_eq!((filter.check(b"a", false), filter.check(b"b", false)), (a, b), "{line:?}");
    }
    for line in ["+ a", "include a", "include_a", "+_a"] {
        assert_eq!(filter(&[line, "- *"]).check(b"a", false), Verdict::Include, "{line:?}");
    }
    for line in ["!", "clear", "clear,", "!,"] {
        assert!(filter(&["- a", line]).is_empty(), "{line:?}");
    }
    assert!(filter(&["", "# - a", "; - a"]).is_empty());
}

#[test]
fn errors_name_the_rule() {
    for (line, reason) in [
        ("nonsense", "unknown"),
        ("*.o", "unknown"),
        (" - a", "unknown"),
        ("excluded a", "unknown"),
        ("-", "no pattern"),
        ("+ ", "no pattern"),
        ("include", "no pattern"),
        ("-a", "unknown modifier 'a'"),
        ("-e a", "unknown modifier 'e'"),
        ("exclude\ta", "unknown"),
        ("-/ a", "absolute path"),
        ("-s a", "one side"),
        ("-p a", "perishable"),
        ("-x a", "extended"),
        ("-C", "CVS"),
        (". file", "merge"),
        ("dir-merge .rules", "merge"),
        ("P a", "one side"),
        ("hide a", "one side"),
        ("! a", "nothing behind"),
        ("clear a", "nothing behind"),
        ("- a\0b", "NUL"),
    ] {
        let mut filter = Filter::default();
        let text = filter.rule(line.as_bytes()).expect_err(line);
        assert!(text.contains(reason) && text.contains(&show(line.as_bytes())), "{line:?}: {text}");
        assert!(filter.is_empty());
    }
    assert_eq!(
        Filter::default().rules(b"- a\n\n%\n", false).unwrap_err(),
        "line 3: filter rule '%': unknown; it must start with '+ ', '- ' or '!'"
    );
    assert!(Filter::default().include(b"+ ").unwrap_err().contains("'+ '"));
}

#[test]
fn plain_patterns_know_old_prefixes() {
    let mut filter = Filter::default();
    filter.exclude(b"+ a").unwrap();
    filter.include(b"- b").unwrap();
    filter.exclude(b"!x").unwrap();
    filter.exclude(b"").unwrap();
    assert_eq!(filter.check(b"a", false), Verdict::Include);
    assert_eq!(filter.check(b"b", false), Verdict::Exclude);
    assert_eq!(filter.check(b"!x", false), Verdict::Exclude);
    filter.exclude(b"!").unwrap();
    assert!(filter.is_empty());
}

#[test]
fn files_of_patterns() {
    let mut filter = Filter::default();
    filter.patterns(b"# no\n; no\n\na\r\n+ b\nc ", Verdict::Exclude, false).unwrap();
    for (path, verdict) in [("a", Verdict::Exclude), ("b", Verdict::Include), ("c ", Verdict::Exclude), ("c", Verdict::Include)] {
        assert_eq!(filter.check(path.as_bytes(), false), verdict, "{path}");
    }
    assert_eq!(filter.rules.len(), 3);

    let mut filter = Filter::default();
    filter.patterns(b"a\nb\0#c\0\0d\r", Verdict::Exclude, true).unwrap();
    assert_eq!(filter.check(b"a\nb", false), Verdict::Exclude);
    assert_eq!(filter.check(b"d\r", false), Verdict::Exclude);
    assert_eq!(filter.rules.len(), 2);
}
