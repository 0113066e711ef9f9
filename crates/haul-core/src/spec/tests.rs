use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::error::Result;
use crate::place::Scheme;
use crate::plan::Compare;

fn local(bytes: &[u8]) -> Result<Location> {
    Ok(Location::local(bytes))
}

fn spec(sources: &[&[u8]], destination: &[u8]) -> TransferSpec {
    let sources = sources.iter().map(|path| Location::local(path)).collect();
    let attributes = Attributes::only(MetaMask::MTIME.with(MetaMask::SETID));
    TransferSpec { attributes, ..TransferSpec::new(Operation::Copy, sources, Location::local(destination)) }
}

#[test]
fn relative_paths_become_absolute_in_text() {
    let mut relative = spec(&[b"run7/", b"./a", b"."], b"/scratch/x");
    relative.selection.files_from = Some(Input::File("list".into()));
    relative.selection.filters = vec![FilterRule::RulesFrom(Input::File("/r".into())), FilterRule::ExcludeFrom(Input::Stdin)];
    let read = TransferSpec::from_text(&relative.to_text(Path::new("/home/me")), local).expect("its own text");
    let sources: Vec<Vec<u8>> = read.sources.iter().map(Location::to_bytes).collect();
    assert_eq!(sources, [&b"/home/me/run7/"[..], b"/home/me/a", b"/home/me/."]);
    assert!(read.sources[2].means_contents());
    assert_eq!(read.selection.files_from, Some(Input::File("/home/me/list".into())));
    assert_eq!(read.selection.filters[0], FilterRule::RulesFrom(Input::File("/r".into())));
    assert_eq!((read.selection.readers_of_stdin(), relative.selection.readers_of_stdin()), (1, 1));
}

#[test]
fn what_is_no_spec_is_refused() {
    let text = spec(&[b"/a"], b"/b").to_text(Path::new("/"));
    for (text, part) in [
        (String::new(), "EOF"),
        ("{}".into(), "version"),
        (text.replace("\"version\":1", "\"version\":2"), "version 2"),
        (text.replace("\"verify\"", "\"prove\""), "prove"),
        (text.replace("setid", "colour"), "colour"),
        (text.replace("[\"/a\"]", "[]"), "no sources"),
        (format!("{text}x"), "trailing"),
    ] {
        let e = TransferSpec::from_text(&text, local).expect_err(&text);
        assert_eq!(e.kind(), crate::error::ErrorKind::Usage);
        assert!(e.reason().contains(part), "{text}: {}", e.reason());
    }
}

#[test]
fn standard_input_stays_itself() {
    let mut stdin = spec(&[b"x"], b"y");
    stdin.sources = vec![Location::at(Scheme::STDIO, None, None, None, b"")];
    let read = TransferSpec::from_text(&stdin.to_text(Path::new("/d")), |bytes| {
        Location::parse(OsStr::from_bytes(bytes), &[Scheme::LOCAL], &|_| true).map_err(|e| panic!("{e}"))
    });
    assert_eq!(read.expect("its own text").sources, stdin.sources);
}

proptest! {
    /// Whatever bytes names have, and whatever is chosen: the text gives the same spec back.
    #[test]
    fn the_text_of_a_spec_is_the_spec(
        source in proptest::collection::vec(1u8.., 1..20),
        pattern in proptest::collection::vec(any::<u8>(), 1..20),
        dir in proptest::collection::vec(1u8.., 1..20),
        numbers in any::<(u64, u32, u16)>(),
        flags in any::<[bool; 8]>(),
    ) {
        let absolute = [b"/", &source[..]].concat();
        let mut spec = spec(&[&absolute], b"/b/");
        let path = PathBuf::from(OsStr::from_bytes(&dir));
        spec.operation = if flags[0] { Operation::Move } else { Operation::Check { one_way: flags[1] } };
        spec.selection.filters = vec![FilterRule::Include(pattern.clone()), FilterRule::IncludeFrom(Input::File(Path::new("/").join(&path)))];
        spec.selection.bounds.min_size = Some(numbers.0);
        spec.selection.one_file_system = flags[2];
        spec.comparison = Policy { compare: if flags[3] { Compare::Content } else { Compare::Never }, update: flags[4], ..Policy::DEFAULT };
        spec.comparison.window = Duration::new(u64::from(numbers.1), 7);
        spec.attributes.keep = MetaMask(numbers.2).and(MetaMask(0xff));
        spec.attributes.links.safe = flags[5];
        spec.attributes.owner = Some(Owner { user: Some(Principal::Name("a:\u{1b}".into())), group: Some(Principal::Id(numbers.1)) });
        spec.deletion = flags[6].then_some(Deletion { excluded: true, ignore_errors: false, most: Some(MaxDelete::Percent(numbers.1)) });
        spec.safety = Safety { backup_dir: Some(path.clone()), link_dest: vec![path, "b".into()], verify: flags[7], ..Safety::default() };
        spec.limits = Limits { deadline: Some(Duration::from_millis(numbers.0 >> 12)), timeout: None, retries: Some(numbers.1) };
        spec.performance = Performance { workers: Some(numbers.1), bandwidth: Some(numbers.0), compress: flags[1], ..Performance::default() };
        spec.access.insert("ssh".into(), serde_json::json!({"port": numbers.2}));
        let text = spec.to_text(Path::new("/d"));
        prop_assert!(!text.contains('\n'));
        prop_assert_eq!(TransferSpec::from_text(&text, local).expect("its own text"), spec);
    }
}
