//! Options against the documentation, and letters against those of other commands.

use super::*;

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
