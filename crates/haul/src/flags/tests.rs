//! Command lines and what they mean.

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
    assert_eq!(f.spec.destination.scheme, haul_stores::ssh::SSH);
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
    assert_eq!((f.spec.comparison.compare, f.connect.get::<haul_stores::ssh::Flags>().ssh), (Compare::Content, Some("ssh".into())));
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
fn every_promised_option_is_there() {
    copy(
        "sync --no-perms --no-owner --no-group --no-times --chmod D755,F644 --chown me:lab --numeric-ids --include-from i --exclude-from e \
         --filter-from f --include x --exclude y --delete --delete-excluded --ignore-errors --max-delete 10% --link-dest ../old \
         --remove-source-files --timeout 60s --retries 3 --mkpath --force --fsync --wait --failed-to f --deadline 5h --restart --verify \
         --existing --ignore-existing --size-only --modify-window 1s --backup-dir old --min-size 1K --max-size 1G --newer-than 7d \
         --older-than 1d -j 4 --bwlimit 400M --chunk-size 4M --safe-links --partial --numworkers 4 --concurrency 2 --streams 16 --part-size 50MiB --stripe 8,4M --stat \
         --port 2222 --identity k --jump j --ssh-config c --ssh-option A=b -F f -J h --endpoint-url http://localhost --dry-run \
         --itemize-changes --from0 --preserve=mode,times --json --log l --progress=60 --state-dir s --no-color a b",
    );
    copy("cp --inplace --checksum --files-from - --list-only a b");
    copy("cp --list-only a");
    read("check --one-way --checksum -a -0 --missing-to m a/ b");
    read("check --manifest sums dir");
    read("sum --format sha256sum -o out a");
    read("ls -lahR a b");
    read("du -sh");
    read("du -hd 1 a");
    read("tree --du -h -d -a a");
    read("tree -L 2 a");
    read("cat a -");
    read("mkdir -p a/b");
    read("ln a b");
    read("ln -sfn ../a c d");
    read("chmod -R u+rwX,go-w a b");
    read("chmod -x a");
    read("chmod -rw a");
    read("chown -h me:lab a");
    read("chgrp -R 100 a");
    read("df -hi a");
    read("df");
    read("rm -rf a");
    read("rm -r --force --all-versions -n s3://b/");
    read("rm --uploads --older-than 7d s3://b/p/");
    read("rm --version-id v s3://b/k");
    read("ls -lR --etag --all-versions s3://b/");
    read("ls --uploads s3://b/p");
    read("ls s3://");
    read("du --by-class --all-versions -h s3://b/p/");
    read("cat --version-id v s3://b/k");
    read("cp --version-id v s3://b/k .");
    read("cp --version-id v s3://b/k s3://b/k");
    read("mv --source-region a --destination-region b s3://b/k s3://c/k");
    read("mb --region eu-west-1 s3://b");
    read("rb --force -n s3://b");
    read("head --json --version-id v s3://b/k");
    read("presign --expires 7d --method put s3://b/k");
    read("tag --set a=b --remove c --clear -rn s3://b/p/");
    read("acl --set public-read s3://b/k s3://b");
    read("restore --days 7 --tier bulk -r s3://b/p/");
    read("bucket-version --set enabled s3://b");
    read("run --jobs 4 --exit-on-error -");
    read("mv a b");
    read("doctor -F c --install-agent host me@host ssh://host:2222 sftp://host [::1] host:path");
    read("jobs");
    read("jobs list");
    read("jobs show 1f");
    read("jobs resume 1f");
    read("jobs clean --older-than 30d -n");
    read("why");
    read("why 3f2a");
    read("why --json bench/run");
    read("demo");
    read("completions bash");
    read("man");
    read("man dir");
    read("help exit-codes");
    read("help");
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
        let read = crate::transfer::recorded(&written).unwrap_or_else(|e| panic!("{line}: {}", e.reason()));
        let again = TransferSpec { access: read.connect.record(at), ..read.spec.clone() }.to_text(Path::new("/elsewhere"));
        assert_eq!(written, again, "{line}");
        assert!(read.spec.sources.iter().chain([&read.spec.destination]).all(|place| place.is_remote() || place.path.starts_with(b"/")));
    }
    let read = crate::transfer::recorded(&{
        let flags = copy("cp --identity k --ssh-config c a h:b");
        TransferSpec { access: flags.connect.record(Path::new("/home/me")), ..flags.spec }.to_text(Path::new("/home/me"))
    });
    let ssh = read.expect("its own text").connect.get::<haul_stores::ssh::Flags>();
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
fn contradictions_have_a_next_step() {
    for (line, part) in [
        ("sync --delete --files-from l a b", "--include-from"),
        ("sync --delete-excluded --files-from l a b", "--include-from"),
        ("cp -c --size-only a b", "leave one out"),
        ("cp -I -c a b", "leave one out"),
        ("cp -q -v a b", "leave one out"),
        ("cp --inplace --backup-dir d a b", "leave one out"),
        ("cp --min-size 2M --max-size 1M a b", "exchange them"),
        ("cp --newer-than 1d --older-than 2d a b", "exchange them"),
        ("sync a b c", "haul cp"),
        ("cp a", "write SRC and DST"),
        ("cp", "help is -h"),
        ("cp --delete a b", "haul sync"),
        ("sync --info=progress2 a b", "--progress"),
        ("sync - b", "haul cp"),
        ("cp - a b", "standard input"),
        ("cp --files-from - --exclude-from - a b", "one thing only"),
        ("cp --files-from l a b c", "one source"),
        ("check a", "SRC and DST"),
        ("check --manifest m a b", "one address"),
        ("du -s -d 2 a", "leave one out"),
        ("cp --deadline 2026-03-01 a b", "passed"),
        ("cp --chunk-size 400 a b", "400M"),
        ("cp --chunk-size 1K a b", "64K"),
        ("cp --timeout 60 a b", "60s"),
        ("cp --chmod u+z a b", "none of r, w"),
        ("cp --preserve=colour a b", "there are mode"),
        ("cp -j 0 a b", "1..=4096"),
        ("mkdir -", "./-"),
        ("frobnicate", "frobnicate"),
        ("get h:a b", "`haul cp SRC DST`"),
        ("put a h:b", "`haul cp SRC DST`"),
        ("pull h:a b", "`haul cp SRC DST`"),
        ("push a h:b", "`haul cp SRC DST`"),
        ("mirror a b", "`haul sync --delete SRC/ DST`"),
        ("copy a b", "`haul cp SRC DST`"),
        ("move a b", "`haul mv SRC DST`"),
        ("delete a", "`haul rm`"),
        ("rsync -av a b", "`haul sync`"),
        ("cp s3:/b/x .", "write s3://b/x"),
        ("cp scp://h/x .", "HOST:PATH"),
        ("cp gs://b/x .", "there are file, ssh, sftp, s3, https, http"),
        ("sync a ssh://me:secret@host/", "password"),
    ] {
        let text = refused(line);
        assert!(text.contains(part) && text.starts_with("error: "), "{line}: {text}");
    }
}

#[test]
fn a_stray_value_gets_a_hint_and_not_a_guess() {
    for (line, part) in [
        ("cp -i /home/me/.ssh/id_rsa a host:b", "--identity"),
        ("sync -avi key.pem a host:b", "--identity"),
        ("cp -P 2222 a host:b", "--port"),
        ("cp -p 2222 a host:b", "--port"),
        ("cp -p 50MiB a s3://b/", "--part-size"),
        ("cp -c 16 a b", "-j N"),
        ("cp -rn 16 a b", "-j N"),
        ("cp -o StrictHostKeyChecking=no a host:b", "--ssh-option"),
        ("cp -c aes128-ctr a host:b", "Ciphers="),
        ("cp -rc chacha20-poly1305@openssh.com a host:b", "Ciphers="),
        ("cp -j abc a b", "write -J HOST"),
        ("cp --progress 60 a b", "--progress=60"),
        ("sync --preserve mode,times a b", "--preserve=mode,times"),
    ] {
        let text = refused(line);
        assert!(text.contains(part), "{line}: {text}");
    }
    // A name that is there is what it says; a key with company is to be copied.
    assert!(read_in(&["cp", "-P", "2222", "dst"], &["2222"]).is_ok());
    assert!(read_in(&["cp", "-i", "id_rsa", "dst"], &["id_rsa"]).is_ok());
    assert!(read_in(&["cp", "-i", "a.pem", "b.pem", "dst"], &["a.pem", "b.pem"]).is_ok());
    assert!(read_in(&["cp", "-i", "id_rsa", "src", "dst"], &["id_rsa", "src"]).is_err(), "one too many");
}

#[test]
fn h_is_help_where_it_is_not_sizes() {
    let shown = |line: &str| match read_in(&line.split(' ').collect::<Vec<_>>(), &[]) {
        Ok(Parsed::Print(text)) => text.plain,
        Ok(Parsed::Run(_)) => panic!("{line}: no help"),
        Err(e) => panic!("{line}: {}", e.text.plain),
    };
    for line in ["-h", "cp -h", "sync -ah", "mv -h", "check -h", "rm -rh", "jobs clean -h", "bench files -h", "-h cp", "check a -h b"] {
        assert!(shown(line).contains("--help` lists all options"), "{line}");
        let long = line.split(' ').map(|word| if word.ends_with('h') { "--help" } else { word }).collect::<Vec<_>>().join(" ");
        assert!(shown(&long).lines().count() > shown(line).lines().count(), "{long}");
    }
    // Sizes for people, as in ls, du and rsync.
    for line in ["ls -h", "du -h", "tree -h", "cp -avh a b", "sync -h a b"] {
        assert!(matches!(read_in(&line.split(' ').collect::<Vec<_>>(), &[]), Ok(Parsed::Run(_))), "{line}");
    }
}

#[test]
fn options_of_a_command_may_stand_before_it() {
    let Command::Ls(flags) = read("--endpoint-url http://h --json ls s3://").command else { panic!("not ls") };
    assert_eq!(flags.connect.get::<haul_stores::s3::Flags>().endpoint_url.as_deref(), Some("http://h"));
    assert!(copy("-avn --port 2222 cp a h:b").dry);
    let text = refused("--delete cp a b");
    assert!(text.contains("cp never deletes"), "{text}");
}

#[test]
fn usage_errors_have_their_codes() {
    let code = |line: &str| read_in(&line.split(' ').collect::<Vec<_>>(), &[]).map(|_| 0).unwrap_or_else(|e| e.exit.code());
    assert_eq!(code("cp --nonsense a b"), 1);
    assert_eq!(code("check --nonsense a b"), 2);
    assert_eq!(code("-v check a"), 2);
    assert_eq!(code("--log check cp --nonsense"), 1, "the value of --log is no command");
    assert_eq!(code("cp --help"), 0);
    for line in ["version", "--version", "-V", "--json version"] {
        assert!(
            matches!(read_in(&line.split(' ').collect::<Vec<_>>(), &[]), Ok(Parsed::Print(text)) if text.plain.starts_with("haul 0.")),
            "{line}"
        );
    }
    for line in ["get a b", "put a b", "mirror a b", "copy a b", "move a b", "delete a", "rsync a b", "push a b", "pull a b"] {
        assert!(!refused(line).contains("similar"), "{line}: {}", refused(line));
    }
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

/// A letter that means something else in some command, and why that is no trap.
const LETTERS_THAT_DIFFER: [(char, &str); 12] = [
    ('a', "ls: all names, as in ls"),
    ('l', "ls: long, as in ls"),
    ('h', "ls, du, tree, df: sizes for people; chown, chgrp: as there; cp, sync, mv with operands: accepted; else help"),
    ('p', "mkdir: parents, as in mkdir"),
    ('o', "sum: output"),
    ('d', "du: depth; tree: directories only, as in tree"),
    ('i', "df: inodes, as in df"),
    ('n', "ln: as in ln"),
    ('s', "du: summarize; ln: symlinks, as in ln"),
    ('f', "rm, ln: as in rm and ln"),
    ('L', "tree: levels, as in tree"),
    ('r', "rm: as in rm"),
];

#[test]
fn no_letter_means_two_things() {
    let mut definitions = definitions();
    definitions.build();
    let mut all = Vec::new();
    table::collect(&definitions, &mut all);
    let mut letters: BTreeMap<char, BTreeMap<String, String>> = BTreeMap::new();
    for (command, arg) in all {
        for letter in arg.get_short_and_visible_aliases().unwrap_or_default() {
            let clash = letters.entry(letter).or_default().insert(arg.get_id().to_string(), command.clone());
            assert!(clash.is_none_or(|c| c != command), "-{letter} twice in {command}");
        }
    }
    for (letter, meanings) in letters {
        let excused = LETTERS_THAT_DIFFER.iter().any(|(l, _)| *l == letter);
        assert!(meanings.len() == 1 || excused, "-{letter}: {meanings:?}");
    }
}

#[test]
fn every_option_is_documented() {
    let mut definitions = definitions();
    definitions.build();
    let mut all = Vec::new();
    table::collect(&definitions, &mut all);
    let table = table::markdown();
    for (command, arg) in all {
        assert!(arg.get_help().is_some_and(|h| h.to_string().len() > 5), "{command}: {arg} has no help");
        assert!(
            arg.get_help_heading().is_some() || !matches!(command.as_str(), "cp" | "sync" | "mv" | "check" | "sum"),
            "{command}: {arg} has no heading"
        );
        if let Some(long) = arg.get_long() {
            assert!(table.contains(&format!("--{long}")), "{long} is not in the table");
        }
    }
    for command in definitions.get_subcommands() {
        assert!(command.get_about().is_some(), "{}", command.get_name());
    }
}

#[test]
fn the_table_in_the_docs_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/flags.md");
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == table::markdown(), "docs/flags.md is old: run `cargo run -p haul -- flags-table > docs/flags.md`");
}

#[test]
fn commands_of_object_stores_say_what_they_are_for() {
    for (line, part) in [
        ("mb s3://b/k", "is no bucket"),
        ("mb dir", "is no bucket"),
        ("mb s3://", "is no bucket"),
        ("rb s3://b//", "is no bucket"),
        ("head file", "haul ls -l"),
        ("head s3://", "is no object"),
        ("head --version-id v s3://b/k s3://b/l", "one object"),
        ("presign s3://b", "is no object"),
        ("tag s3://b/p/", "is a directory"),
        ("restore --days 1 s3://b", "is no object"),
        ("acl --set Public s3://b/k", "canned"),
        ("tag --version-id v s3://b/k s3://b/l", "one object"),
        ("presign --expires 8d s3://b/k", "seven days"),
        ("presign --expires 60 s3://b/k", "unit"),
        ("presign --method put --version-id v s3://b/k", "leave one out"),
        ("ls --uploads dir", "is no place in a bucket"),
        ("ls --etag s3://", "is no place in a bucket"),
        ("ls --uploads --all-versions s3://b", "cannot be used with"),
        ("du --by-class dir", "is no object store"),
        ("rm --uploads dir", "is no object store"),
        ("rm --uploads --exclude x s3://b/k", "--older-than"),
        ("rm --version-id v s3://b/k s3://b/l", "one object"),
        ("rm --version-id v --all-versions s3://b/k", "cannot be used with"),
        ("cat --version-id v file", "one object"),
        ("cp --version-id v s3://b/* .", "one object"),
        ("sync --version-id v s3://b/k .", "haul cp"),
        ("run", "FILE"),
        ("run --jobs 0 x", "1..=256"),
    ] {
        let text = refused(line);
        assert!(text.contains(part), "{line}: {text}");
    }
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
