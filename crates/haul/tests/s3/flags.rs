//! Flags of copies, each with a bucket as its destination: they do what they say, or say that they cannot.

use std::fs;
use std::os::unix::fs::MetadataExt;

use haul_test::compare::What;

use crate::support::World;

#[test]
fn hard_links_become_files_of_their_own() {
    let w = World::new();
    w.tree("src: a=10 b=>a d/c=>a");
    w.haul("cp -aH src/ @/to/").ends(0).says("without hard links");
    w.haul("cp -aH @/to/ back").ends(0);
    w.assert_same("src", "back", What { hard_links: false, holes: false, ..What::ALL });
    w.haul("sync -aH --delete src/ @/to/").moves_nothing();
}

#[test]
fn holes_are_zeros_there() {
    let w = World::new();
    w.tree("src: sparse=~40M@0+4K,20M+64K all=~8M");
    w.haul("cp -aS --part-size 5M src/ @/to/").ends(0);
    assert_eq!(w.get("to/all"), vec![0; 8 << 20]);
    w.haul("cp -aS @/to/ back").ends(0);
    w.assert_same("src", "back", What { root: true, ..What::USUAL });
}

#[test]
fn modes_and_owners_that_are_asked_for() {
    let w = World::new();
    w.tree("src: a=10:0600 d/b=10:0755 d/:0700");
    w.haul("cp -a --chmod D755,F640 --chown 12:34 src/ @/to/").ends(0);
    w.haul("cp -a @/to/ back").ends(0);
    let of = |path: &str| {
        let meta = w.path(path).metadata().unwrap_or_else(|e| panic!("{path}: {e}"));
        (meta.mode() & 0o7777, meta.uid(), meta.gid())
    };
    assert_eq!((of("back/a"), of("back/d"), of("back/d/b")), ((0o640, 12, 34), (0o755, 12, 34), (0o640, 12, 34)));
    w.haul("sync -a --chmod D755,F640 --chown 12:34 --delete src/ @/to/").moves_nothing();
}

#[test]
fn lists_of_names() {
    let w = World::new();
    w.tree("src: a=10 b=10 d/c=10 d/e=10");
    fs::write(w.path("list"), "a\nd/c\nnone\n").expect("written");
    w.haul("cp --files-from list src @/to/").ends(23).says("none");
    let files = || w.keys().into_iter().filter(|key| !key.ends_with('/')).collect::<Vec<_>>().join(" ");
    assert_eq!(files(), "to/a to/d/c");
    w.haul("cp src/ @/all/").ends(0);
    w.haul("cp --files-from list @/all back").ends(23).says("none");
    assert!(w.path("back/a").exists() && w.path("back/d/c").exists() && !w.path("back/b").exists() && !w.path("back/d/e").exists());
}

#[test]
fn files_of_some_sizes_and_those_that_are_there_already() {
    let w = World::new();
    w.tree("src: small=10 middle=2K large=200K old: middle=1K");
    w.haul("cp --min-size 1K --max-size 100K src/ @/to/").ends(0);
    assert_eq!(w.keys().iter().filter(|key| !key.ends_with('/')).collect::<Vec<_>>(), ["to/middle"]);
    w.haul("cp old/ @/to/").ends(0);
    w.haul("cp --ignore-existing src/ @/to/").ends(0);
    assert_eq!((w.get("to/middle").len(), w.get("to/small").len()), (1024, 10));
    w.haul("rm @/to/small").ends(0);
    w.haul("cp --existing src/ @/to/").ends(0);
    assert_eq!(w.get("to/middle").len(), 2048);
    assert!(!w.keys().contains(&"to/small".to_string()));
}

#[test]
fn what_is_sent_can_be_read_again() {
    let (w, scripted) = World::scripted();
    w.tree("src: small=10 large=12M empty=0");
    w.haul("cp --verify --part-size 5M src/ @/to/").ends(0).says("erif");
    w.haul("cp --verify @/to/ back").ends(0);
    w.assert_same("src", "back", What::USUAL);
    // A service that gives other bytes than it took.
    use haul_test::objects::scripted::{Action, When};
    scripted.rule(When::method("GET").path("/bad/"), .., Action::Flip(5));
    let ended = w.haul("cp --verify --part-size 5M --retries 0 src/ @/bad/").run();
    assert_ne!(ended.status.code(), Some(0), "{ended}");
}

#[test]
fn sources_go_when_they_have_arrived() {
    let w = World::new();
    w.tree("src: a=10 large=12M d/b=10");
    w.haul("cp -a src/ kept").ends(0);
    w.haul("cp --remove-source-files --part-size 5M src/ @/to/").ends(0);
    assert!(!w.path("src/a").exists() && !w.path("src/large").exists() && w.path("src/d").exists());
    w.haul("cp --remove-source-files @/to/ back").ends(0);
    assert_eq!(w.keys().iter().filter(|key| !key.ends_with('/')).count(), 0);
    w.assert_same("kept", "back", What { directory_mtime: false, ..What::USUAL });
}

#[test]
fn old_versions_that_are_kept_beside() {
    let w = World::new();
    w.tree("src: a=10 old: a=20 gone=5");
    w.haul("cp old/ @/to/").ends(0);
    w.haul("sync --delete --backup-dir .before src/ @/to/").ends(0);
    assert_eq!((w.get("to/a").len(), w.get("to/.before/a").len(), w.get("to/.before/gone").len()), (10, 20, 5));
    w.haul("sync --delete --backup-dir .before src/ @/to/").moves_nothing();
}

#[test]
fn what_a_bucket_cannot_do_is_said() {
    let w = World::new();
    w.tree("src: a=10 ref/a=10");
    let ended = w.haul("cp --link-dest ../ref src/ @/to/").run();
    assert_ne!(ended.status.code(), Some(0), "{ended}");
    ended.says("--link-dest");
    w.haul("cp -x src/ @/to/").ends(0);
}

#[test]
fn several_sources_of_several_kinds() {
    let w = World::new();
    w.tree("a=10 d/b=10");
    w.put(b"x/c", &[], b"c");
    w.put(b"y", &[], b"y");
    w.haul("cp a d @/x/c @/y @/to/").ends(0);
    let files = w.keys().into_iter().filter(|key| key.starts_with("to/") && !key.ends_with('/')).collect::<Vec<_>>().join(" ");
    assert_eq!(files, "to/a to/c to/d/b to/y");
    w.haul("cp @/x/ @/y a back").ends(0);
    assert_eq!((w.read("back/c"), w.read("back/y"), w.read("back/a").len()), (b"c".to_vec(), b"y".to_vec(), 10));
}

#[test]
fn links_are_followed_or_kept() {
    let w = World::new();
    w.tree("src: a=10 l->a d/up->../a away->/etc/hostname dir->d none->nowhere");
    w.haul("cp -a src/ @/to/").ends(0);
    w.haul("cp -rL --exclude none src/ @/followed/").ends(0);
    assert_eq!(
        (w.get("followed/l"), w.get("followed/d/up"), w.get("followed/dir/up")),
        (w.read("src/a"), w.read("src/a"), w.read("src/a"))
    );
    // Of a bucket's links those are followed that stay in it.
    let ended = w.haul("cp -L @/to/ back").ends(23);
    assert_eq!((w.read("back/l"), w.read("back/d/up")), (w.read("src/a"), w.read("src/a")));
    assert!(!w.path("back/away").exists() && !w.path("back/none").exists(), "{ended}");
}

/// Nothing that an ordinary user sends needs to be opened for writing on the way.
#[test]
fn an_ordinary_user_keeps_the_attributes_of_closed_directories() {
    let w = World::new();
    let tree = w.tree("src: closed/a=10 closed/:0500");
    for path in ["src/closed/a", "src/closed", "src"] {
        tree.set_mtime(path, 1_600_000_000, 7).expect("a time");
    }
    let (scripted, program) = (
        haul_test::objects::Scripted::before(&w.real).expect("it listens"),
        haul_test::nobody::NobodyProgram::new(std::path::Path::new(env!("CARGO_BIN_EXE_haul"))).expect("a copy"),
    );
    w.sh("chown -R 65534:65534 .");
    let run = |words: &str| {
        let mut command = program.command();
        let endpoint = scripted.endpoint(&w.real);
        command.env_clear().current_dir(w.path("")).env("HOME", w.path("home")).env("HAUL_STATE_DIR", w.path("home/state"));
        command.env("AWS_ENDPOINT_URL", &endpoint.url).env("AWS_REGION", &endpoint.region);
        command.env("AWS_ACCESS_KEY_ID", &endpoint.access).env("AWS_SECRET_ACCESS_KEY", &endpoint.secret);
        command.args(words.replace('@', &format!("s3://{}", w.bucket)).split_whitespace());
        let out = command.output().expect("it runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    };
    fs::set_permissions(w.path(""), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("set");
    run("cp -a src/ @/to/");
    fs::write(w.path("src/closed/b"), "b").expect("as root");
    w.sh("chown -R 65534:65534 src");
    tree.set_mtime("src/closed", 1_600_000_000, 7).expect("a time");
    scripted.clear();
    run("cp -a src/ @/to/");
    use haul_test::objects::scripted::When;
    assert_eq!(scripted.count(&When::method("PUT").path("/to/closed/")), 1, "the new file alone");
}
