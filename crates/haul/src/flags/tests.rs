//! Command lines and what they mean.

mod documented;
mod refused;

use super::*;
use haul_core::entry::MetaMask;
use haul_core::plan::Compare;
use haul_core::spec::{FilterRule, Input, MaxDelete, Owner, Principal, TransferSpec};
use std::collections::BTreeMap;
use std::time::Duration;

fn read_in(line: &[&str], there: &[&str]) -> Result<Parsed, UsageError> {
    let argv: Vec<OsString> = std::iter::once("haul").chain(line.iter().copied()).map(OsString::from).collect();
    parse(
        &argv,
        &Environment {
            exists: &|path| there.iter().any(|name| Path::new(name) == path),
            state_dir: Some("/state".into()),
            no_color: false,
            now: "2026-03-10T12:00:00Z".parse().expect("a time"),
            zone: TimeZone::UTC,
            umask: 0o022,
        },
    )
}

fn read(line: &str) -> Invocation {
    let words: Vec<&str> = line.split_whitespace().collect();
    match read_in(&words, &[]) {
        Ok(Parsed::Run(invocation)) => *invocation,
        Ok(Parsed::Print(text)) => panic!("{line}: {}", text.plain),
        Err(e) => panic!("{line}: {}", e.text.plain),
    }
}

fn copy(line: &str) -> CopyFlags {
    match read(line).command {
        Command::Copy(flags) => *flags,
        other => panic!("{line}: {other:?}"),
    }
}

fn refused(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    match read_in(&words, &[]) {
        Err(e) => e.text.plain,
        Ok(other) => panic!("{line}: understood as {other:?}"),
    }
}

#[test]
fn the_definitions_hold() {
    definitions().debug_assert();
}

#[test]
fn rsyncs_letters_run_unchanged() {
    let f = copy("sync -avzP src/ host:dst");
    assert!(f.spec.attributes == keep::all() && f.spec.performance.compress && f.spec.sources[0].trailing_slash);
    assert_eq!(f.spec.destination.scheme, haul_ssh::ssh::SSH);
    let i = read("sync -avzP src/ dst");
    assert_eq!((i.global.verbose, i.global.progress), (1, global::Progress::On));

    let f = copy("cp -rlptgoD a b");
    let kept = MetaMask::MTIME.with(MetaMask::MODE).with(MetaMask::SETID).with(MetaMask::OWNER).with(MetaMask::GROUP);
    assert_eq!(f.spec.attributes.keep, kept);
    assert!(f.spec.attributes.links.copy && f.spec.attributes.links.specials && !f.spec.attributes.links.hard && !f.spec.attributes.sparse);

    let f = copy("sync -anv --delete a/ b");
    assert!(f.dry && f.spec.deletion.is_some() && f.spec.attributes == keep::all());

    let f = copy("cp -a -r -l -p -t -g -o -D -H -A -X -S -n -v -u -x -z -c -i -P -e ssh -W -L -K a b");
    assert!(f.spec.comparison.update && f.spec.selection.one_file_system && f.output.itemize && f.links_follow_and_keep());
    assert_eq!((f.spec.comparison.compare, f.connect.get::<haul_ssh::ssh::Flags>().ssh), (Compare::Content, Some("ssh".into())));
    assert_eq!(copy("cp -I a b").spec.comparison.compare, Compare::Never);
    copy("cp -avzhe ssh a b");
    copy("cp -q a b");
}

impl CopyFlags {
    fn links_follow_and_keep(&self) -> bool {
        self.spec.attributes.links.follow && self.spec.attributes.links.keep_dirlinks
    }
}

#[test]
fn the_default_is_time_and_mode_and_a_is_all() {
    let f = copy("cp a b");
    assert_eq!(f.spec.attributes.keep, MetaMask::MTIME.with(MetaMask::MODE));
    assert!(f.spec.attributes.links.copy && !f.spec.attributes.links.specials && !f.spec.safety.verify && f.spec.deletion.is_none());
    let all = copy("cp -a a b").spec.attributes;
    assert_eq!(all, keep::all());
    assert!(!all.keep.any(MetaMask::CONTEXT), "the security context only by its name");
    assert!(copy("cp -a --preserve=context a b").spec.attributes.keep.has(MetaMask::CONTEXT.with(MetaMask::ACL)));
    assert_eq!(copy("mv a b").spec.attributes, all);
    assert!(copy("mv a b").spec.safety.remove_source);
}

#[test]
fn the_spec_of_a_command_line_survives_its_text() {
    for line in [
        "cp -a run7/ host:/scratch/run7",
        "sync -aAXHS --delete --max-delete 10% --exclude *.tmp --filter-from r --bwlimit 400M -j 8 --deadline 5h30m a/ s3://lab@bucket/a",
        "mv --port 2222 --identity k -J gate --ssh-option A=b a b ssh://me@[::1]:22/x",
        "cp --files-from l -0 --chown me:1000 --chmod D755,F644 --backup-dir old --link-dest ../a --preserve=context -z -W / /b",
        "cp -c --modify-window 2s --min-size 1K --newer-than 7d --sha256sums SUMS https://h/d/ /b",
        "cp --endpoint-url http://localhost --ca-bundle ca.pem --sse aws:kms --metadata a=b x s3://b/k",
    ] {
        let flags = copy(line);
        let at = Path::new("/home/me");
        let written = TransferSpec { access: flags.connect.record(at), ..flags.spec }.to_text(at);
        let read = crate::flags::CopyFlags::of_record(&written).unwrap_or_else(|e| panic!("{line}: {}", e.reason()));
        let again = TransferSpec { access: read.connect.record(at), ..read.spec.clone() }.to_text(Path::new("/elsewhere"));
        assert_eq!(written, again, "{line}");
        assert!(read.spec.sources.iter().chain([&read.spec.destination]).all(|place| place.is_remote() || place.path.starts_with(b"/")));
    }
    let read = crate::flags::CopyFlags::of_record(&{
        let flags = copy("cp --identity k --ssh-config c a h:b");
        TransferSpec { access: flags.connect.record(Path::new("/home/me")), ..flags.spec }.to_text(Path::new("/home/me"))
    });
    let ssh = read.expect("its own text").connect.get::<haul_ssh::ssh::Flags>();
    assert_eq!((ssh.identities, ssh.ssh_config), (vec!["/home/me/k".into()], Some("/home/me/c".into())));
}

#[test]
fn the_later_switch_wins() {
    assert!(!copy("cp -a --no-owner a b").spec.attributes.keep.any(MetaMask::OWNER));
    assert!(copy("cp --no-owner -a a b").spec.attributes.keep.has(MetaMask::OWNER));
    assert!(copy("cp -a --no-perms -p a b").spec.attributes.keep.has(MetaMask::MODE));
    assert!(!copy("cp -p --no-perms a b").spec.attributes.keep.any(MetaMask::MODE.with(MetaMask::SETID)));
    assert!(!copy("cp -a --no-hard-links --no-D a b").spec.attributes.links.hard);
    assert!(!copy("cp --no-links a b").spec.attributes.links.copy);
    assert!(copy("cp --no-group --preserve=group a b").spec.attributes.keep.has(MetaMask::GROUP));
    assert!(!copy("cp --preserve=group --no-group a b").spec.attributes.keep.has(MetaMask::GROUP));
    assert!(copy("cp -aa a b").spec.attributes == keep::all());
    let bare = copy("cp --preserve a b");
    assert!(bare.spec.attributes.keep.has(MetaMask::OWNER.with(MetaMask::XATTR)) && bare.spec.sources.len() == 1);
}

#[test]
fn filters_keep_their_order_across_kinds() {
    let f = copy("sync --exclude a --include b --filter-from r --exclude c --include-from i --exclude-from - --include d x y");
    assert_eq!(
        f.spec.selection.filters,
        [
            FilterRule::Exclude(b"a".into()),
            FilterRule::Include(b"b".into()),
            FilterRule::RulesFrom(Input::File("r".into())),
            FilterRule::Exclude(b"c".into()),
            FilterRule::IncludeFrom(Input::File("i".into())),
            FilterRule::ExcludeFrom(Input::Stdin),
            FilterRule::Include(b"d".into()),
        ]
    );
}

#[test]
fn values_are_read() {
    let f = copy(
        "sync --delete --max-delete 10% --bwlimit 100 --chunk-size 4M -j 8 --modify-window 2s --chown :1000 --chmod go=rX --deadline 13:30 a b",
    );
    assert_eq!(f.spec.deletion.and_then(|d| d.most), Some(MaxDelete::Percent(10)));
    assert_eq!(
        (f.spec.performance.bandwidth, f.spec.performance.workers, f.spec.performance.chunk),
        (Some(102_400), Some(8), Some(4 << 20))
    );
    assert_eq!(f.spec.comparison.window, Duration::from_secs(2));
    assert_eq!(f.spec.attributes.owner, Some(Owner { user: None, group: Some(Principal::Id(1000)) }));
    assert_eq!(f.spec.attributes.chmod.len(), 1);
    assert_eq!(f.spec.limits.deadline, Some(Duration::from_secs(5400)));
    let f = copy("cp --newer-than 2026-03-09T12:00 --older-than 1h --min-size 1K a b");
    assert_eq!(f.spec.selection.bounds.newer.map(|t| t.secs), Some(1_773_057_600));
    assert_eq!(f.spec.selection.bounds.older.map(|t| t.secs), Some(1_773_140_400));
    assert_eq!(f.spec.selection.bounds.min_size, Some(1024));
    let f = copy("sync --delete-excluded a b");
    assert_eq!(f.spec.deletion.map(|d| d.excluded), Some(true));
}

#[test]
fn global_options_go_anywhere() {
    for line in ["-v --json --state-dir d cp a b", "cp -v --json --state-dir d a b", "cp a b -v --json --state-dir d"] {
        let g = read(line).global;
        assert_eq!((g.verbose, g.json, g.state_dir, g.color), (1, true, Some("d".into()), true), "{line}");
    }
    assert_eq!(read("cp a b").global.state_dir, Some("/state".into()));
    assert_eq!(read("cp -vv a b").global.verbose, 2);
    assert_eq!(read("cp --progress=60 a b").global.progress, global::Progress::Every(Duration::from_secs(60)));
    assert_eq!(read("cp --progress a b").global.progress, global::Progress::On);
    assert_eq!(read("cp -P --progress=5 a b").global.progress, global::Progress::Every(Duration::from_secs(5)));
    assert!(!read("cp --no-color a b").global.color);
}

#[test]
fn options_of_a_command_may_stand_before_it() {
    let Command::Ls(flags) = read("--endpoint-url http://h --json ls s3://").command else { panic!("not ls") };
    assert_eq!(flags.connect.get::<haul_s3::Flags>().endpoint_url.as_deref(), Some("http://h"));
    assert!(copy("-avn --port 2222 cp a h:b").dry);
    let text = refused("--delete cp a b");
    assert!(text.contains("cp never deletes"), "{text}");
}

#[test]
fn names_need_not_be_utf8() {
    use std::os::unix::ffi::OsStringExt;
    let argv = vec![
        "haul".into(),
        "cp".into(),
        "--exclude".into(),
        OsString::from_vec(b"\xff*".to_vec()),
        OsString::from_vec(b"a\xfe".to_vec()),
        "b".into(),
    ];
    let environment =
        Environment { exists: &|_| true, state_dir: None, no_color: true, now: Timestamp::UNIX_EPOCH, zone: TimeZone::UTC, umask: 0 };
    let Ok(Parsed::Run(invocation)) = parse(&argv, &environment) else { panic!("not understood") };
    let Command::Copy(flags) = invocation.command else { panic!("not a copy") };
    assert_eq!(flags.spec.sources[0].path, b"a\xfe");
    assert_eq!(flags.spec.selection.filters, [FilterRule::Exclude(b"\xff*".into())]);
}

#[test]
fn a_service_without_a_path_is_its_buckets() {
    let listed = |line: &str| match read(line).command {
        Command::Ls(flags) => flags.places.iter().map(ToString::to_string).collect::<Vec<_>>(),
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(listed("ls"), ["."]);
    assert_eq!(listed("ls s3://"), ["s3:///"]);
    assert_eq!(listed("ls --endpoint-url http://localhost"), ["s3:///"]);
    assert_eq!(listed("ls --profile lab"), ["s3:///"]);
    assert_eq!(listed("ls --profile lab dir"), ["dir"]);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(500))]
    /// Words of real command lines in any order: understood or refused, never a panic.
    #[test]
    #[ignore = "full"]
    fn no_command_line_panics(
        command in proptest::sample::select(vec!["cp", "sync", "mv", "check", "sum", "ls", "du", "tree", "rm", "mkdir", "ln", "chmod", "chown", "chgrp", "df", "mb", "rb", "head", "presign", "tag", "acl", "restore", "bucket-version", "run", "doctor", "jobs", "help", ""]),
        words in proptest::collection::vec(
            proptest::sample::select(vec![
                "-a", "-p", "--no-perms", "--preserve", "--preserve=mode,all", "--include", "--exclude", "--exclude=x", "--include-from=-",
                "--filter-from", "-x", "-avzP", "--progress", "--progress=3", "-i", "-P", "22", "--", "-", "a", "b/", "h:p", "s3://b/", "--chmod=u+w",
                "--chmod", "--deadline=08:00", "--newer-than=1d", "--older-than=2d", "-e", "-j4", "--delete", "--files-from=l", "-h", "-d", "-L",
                "--json", "-q", "--help", "é", "-é", "--é=",
            ]),
            0..8,
        ),
    ) {
        let line: Vec<&str> = std::iter::once(command).chain(words).collect();
        let _ = read_in(&line, &["a"]).is_ok();
    }
}

#[test]
fn no_password_is_written_into_a_script() {
    for line in [
        "slurm ftp://me:secret@host/a b",
        "slurm a ftp://me:secret@host/b -- -a",
        "slurm --pbs https://me:secret@host/a b",
        "slurm a s3://b/ -- --endpoint-url=https://me:secret@host/",
    ] {
        let said = refused(line);
        assert!(said.contains("me@host/"), "{said}");
        assert!(said.contains("would be written into the script; put it into ~/.netrc") && !said.contains("secret"), "{said}");
    }
    assert!(matches!(read("slurm ftp://me@host/a b").command, Command::Slurm(_)));
}
