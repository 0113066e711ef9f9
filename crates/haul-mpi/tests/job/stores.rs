//! Object stores and hosts as source and destination of several ranks.

use std::collections::BTreeSet;
use std::time::Duration;

use haul_test::compare::What;
use haul_test::objects::scripted::{Action, Answer, When};
use haul_test::objects::{ObjectServer, Scripted};
use haul_test::program::{Ended, Program};
use haul_test::sshd::Sshd;
use haul_test::tree::spread;

use crate::support::{World, own};

fn tree() -> World {
    let w = World::new("src: large=40M d/e/f=3K n=1");
    spread(&w.path("src/many"), 20, 15, 900).expect("made");
    w
}

/// Runs of several ranks and of one process against one server.
struct Bucket<'a> {
    w: &'a World,
    minio: ObjectServer,
}

impl Bucket<'_> {
    fn environment(&self, program: Program) -> Program {
        let endpoint = self.minio.endpoint();
        let program = program.env("AWS_ENDPOINT_URL", &endpoint.url).env("AWS_REGION", &endpoint.region);
        let program = program.env("AWS_ACCESS_KEY_ID", &endpoint.access).env("AWS_SECRET_ACCESS_KEY", &endpoint.secret);
        program.env("AWS_EC2_METADATA_DISABLED", "true")
    }

    #[track_caller]
    fn ranks(&self, ranks: u32, words: &str, code: i32) -> Ended {
        self.environment(self.w.ranks(ranks, words)).ends(code)
    }

    #[track_caller]
    fn one(&self, words: &str, code: i32) -> Ended {
        self.environment(self.w.haul(words)).ends(code)
    }
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn ranks_copy_to_and_from_an_object_store_and_remove_there() {
    let w = tree();
    let bucket = Bucket { w: &w, minio: ObjectServer::minio().expect("MinIO can be started: servers.sh installs it") };
    bucket.minio.make_bucket("ranks").expect("a bucket");
    bucket.ranks(3, "cp --part-size 5M src/ s3://ranks/tree/", 0);
    bucket.one("check src/ s3://ranks/tree/", 0);
    bucket.ranks(3, "check src/ s3://ranks/tree/", 0);
    let again = bucket.ranks(3, "sync --json src/ s3://ranks/tree/", 0);
    assert_eq!(again.finished()["bytes"], 0, "{again}");
    bucket.ranks(3, "sync s3://ranks/tree/ back", 0);
    w.assert_same("src", "back", What::USUAL);
    w.sh("rm back/many/d00003/*; echo other >back/n");
    bucket.ranks(2, "sync --delete back/ s3://ranks/tree/", 0);
    bucket.one("check back/ s3://ranks/tree/", 0);
    w.sh("cp -a back moving");
    bucket.ranks(3, "mv moving/ s3://ranks/moved/", 0);
    assert!(!w.path("moving/large").exists());
    bucket.one("check back/ s3://ranks/moved/", 0);
    for words in [
        "du s3://ranks/tree/ s3://ranks/moved/many/ s3://ranks/none/",
        "du -d 3 --json s3://ranks/",
        "sum --format md5sum s3://ranks/tree/many/",
    ] {
        let one = bucket.environment(w.haul(words)).run();
        let many = bucket.ranks(3, words, one.status.code().expect("not killed"));
        assert_eq!((&many.out, own(&many.err)), (&one.out, sorted(&one.err)), "{words}");
    }
    let dry = bucket.ranks(3, "rm -r -n s3://ranks/tree/", 0);
    let gone = bucket.ranks(3, "rm -r -v s3://ranks/tree/ s3://ranks/moved/n s3://ranks/moved/missing", 23);
    let names = |text: &str| {
        text.lines()
            .filter_map(|line| line.rsplit_once("s3://ranks/tree/").map(|(_, name)| name.to_string()))
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert!(names(&dry.err).len() > 200 && names(&dry.err) == names(&gone.err), "{gone}");
    bucket.one("ls s3://ranks/tree/", 23);
    bucket.one("ls s3://ranks/moved/n", 23);
    bucket.one("ls s3://ranks/moved/large", 0);
}

#[test]
fn ranks_copy_to_and_from_an_ssh_host() {
    let w = tree();
    let server = Sshd::start("").expect("sshd can be started: openssh-server and root");
    let at = w.path("").display().to_string();
    let config = server.config();
    let ranks = |ranks, words: &str| w.ranks(ranks, &format!("{} -F {}", words.replace('~', &at), config.display()));
    ranks(3, "cp -a src/ testhost:~/there").ends(0);
    w.sh("diff -r src there");
    w.sh("echo changed >there/n; rm -r there/many/d00007; mkdir there/extra");
    ranks(3, "check src/ testhost:~/there").ends(1);
    ranks(2, "sync -a --delete testhost:~/there/ src").ends(0);
    w.sh("diff -r there src");
    ranks(3, "du testhost:~/there").ends(0).out_has("files");
    ranks(2, "rm -r testhost:~/there").ends(0);
    assert!(!w.path("there").exists());
}

/// A bucket of so many keys, as listings in pages of 1,000 have it, each after 5 ms. `from_start`: it does not know where to begin.
fn listing(count: usize, from_start: bool) -> Scripted {
    let server = Scripted::alone().expect("it listens");
    let keys: Vec<String> =
        (0..count).map(|i| format!("t/d{}/e{}/f{:05}/k{i}", i % 7, i * i % 11, i / 13)).collect::<BTreeSet<_>>().into_iter().collect();
    server.rule(
        When::method("GET").query("list-type=2"),
        ..,
        Action::make(move |seen, _| {
            std::thread::sleep(Duration::from_millis(5));
            let ask = |name: &str| {
                let value = seen.query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}="))).unwrap_or_default();
                value.replace("%2F", "/").replace("%21", "!").replace("%7E", "~")
            };
            let token = ask("continuation-token");
            let after = if !token.is_empty() { token } else if from_start { String::new() } else { ask("start-after") };
            let (prefix, most) = (ask("prefix"), ask("max-keys").parse().unwrap_or(1000));
            let mut left = keys.iter().filter(|key| **key > after && key.starts_with(&prefix));
            let page: Vec<&String> = left.by_ref().take(most).collect();
            let objects: String = page.iter().map(|key| format!("<Contents><Key>{key}</Key><Size>{}</Size><ETag>\"x\"</ETag><LastModified>2024-01-02T03:04:05.000Z</LastModified></Contents>", key.len())).collect();
            let next = page.last().filter(|_| left.next().is_some()).map_or(String::new(), |last| format!("<NextContinuationToken>{last}</NextContinuationToken>"));
            let body = format!("<ListBucketResult><Name>b</Name><IsTruncated>{}</IsTruncated>{next}{objects}</ListBucketResult>", !next.is_empty());
            Answer::new(200, &body).with("Content-Type", "application/xml")
        }),
    );
    server
}

#[test]
fn ranks_count_a_large_bucket_in_ranges_of_keys() {
    let w = World::new("");
    for (from_start, most) in [(false, 60), (true, 90)] {
        let server = listing(14_321, from_start);
        let of = |program: Program| {
            let program = program.env("AWS_ENDPOINT_URL", format!("http://{}", server.address())).env("AWS_REGION", "us-east-1");
            program.env("AWS_ACCESS_KEY_ID", "some").env("AWS_SECRET_ACCESS_KEY", "secret").env("AWS_EC2_METADATA_DISABLED", "true")
        };
        for words in ["du -d 2 s3://ranks/t/", "du --json -d 9 --exclude e3 s3://ranks/t/", "du s3://ranks/t/d3/"] {
            let one = of(w.haul(words)).ends(0);
            server.clear_seen();
            let many = of(w.ranks(3, words)).ends(0);
            assert_eq!(many.out, one.out, "{words}");
            let pages = server.count(&When::method("GET").query("list-type=2"));
            assert!(pages <= most, "{words}: {pages} requests");
        }
        let ranges = server.count(&When::method("GET").query("start-after="));
        assert!(from_start || ranges > 0, "{:?}", server.requests().last());
    }
}
