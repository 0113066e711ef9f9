//! The commands of docs/from-s3-tools.md, each run as written.

use crate::support::World;

const PAGE: &str = include_str!("../../../../docs/from-s3-tools.md");

/// Commands that MinIO answers with an error, since it has no ACLs and archives nothing: `object` tries them at other servers.
const ELSEWHERE: [&str; 2] = ["haul acl ", "haul restore "];

/// What is between the backquotes of the second column of each row.
fn commands() -> Vec<&'static str> {
    let rows = PAGE.lines().filter(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split(" | ").nth(1));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).filter(|words| words.starts_with("haul ")).collect()
}

/// The words of a line, as a shell has them: of quotes only the single ones.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for character in line.chars() {
        match character {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            other => words.last_mut().expect("one").push(other),
        }
    }
    words
}

/// What the page supposes to be there: files, and the same in the bucket.
fn set_up(w: &World) {
    for gone in ["dst", "g", "m", "d", "e"] {
        w.remove(gone);
    }
    w.tree("data: a.nc=3000 b.tmp=20 sub/c.nc=40");
    w.write("f", "a file");
    for line in ["cp -q data f s3://bucket/", "cp -q f s3://bucket/data/f"] {
        w.haul(&line.replace("s3://bucket", &format!("s3://{}", w.bucket))).ends(0);
    }
    w.haul(&format!("rm -q s3://{}/data/f", w.bucket)).ends(0);
}

#[test]
#[ignore = "full"]
fn commands_for_users_of_other_tools_run_as_they_stand() {
    let w = World::new();
    w.write("rules", "- *.tmp\n");
    let all = commands();
    assert!(all.len() > 100, "the page has more: {}", all.len());
    let archive = format!("s3://{}-archive", w.bucket);
    w.haul(&format!("mb {archive}")).ends(0);
    let mut failed = Vec::new();
    for line in all {
        // That host is somebody's own.
        if line.contains("host:") || ELSEWHERE.iter().any(|command| line.starts_with(command)) {
            continue;
        }
        set_up(&w);
        w.haul("sum --format sha256sum data -o SUMS").ends(0);
        w.write("commands", format!("ls s3://{}/\ncp f s3://{}/by-run\n", w.bucket, w.bucket));
        let here = line.replace("s3://bucket", &format!("s3://{}", w.bucket)).replace("$AWS_ENDPOINT_URL", &w.endpoint.url);
        let here = here.replace("s3://archive", &archive);
        let here = here.strip_suffix(" 2>/dev/null").unwrap_or(&here).to_string();
        let ended = w.haul("").args(&words(&here)[1..]).fed("from standard input").run();
        if ended.status.code() != Some(0) {
            failed.push(format!("{line}\n{ended}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn options_of_other_tools_that_haul_lacks_are_answered_with_what_it_has() {
    let w = World::new();
    w.tree("f=10");
    for (line, hint) in [
        ("cp -s f @/", "--size-only"),
        ("cp --no-clobber f @/", "--ignore-existing"),
        ("cp -c 16 f @/", "--concurrency"),
        ("cp -p 64 f @/", "--part-size"),
        ("cp -r 10 f @/", "--retries"),
        ("cp --flatten f @/", "directory structure"),
        ("ls -H @/", "-h"),
        ("pipe @/k", "haul cp -"),
        ("rcat @/k", "haul cp -"),
        ("cp --no-progress f @/", "-q"),
        ("cp --multi-thread-streams 4 f @/", "--concurrency"),
    ] {
        w.haul(line).run().code(1).err_has(hint);
    }
    assert_eq!(w.keys(), Vec::<String>::new());
}
