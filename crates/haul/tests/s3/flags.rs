//! Flags of copies, each with a bucket as its destination: they do what they say, or say that they cannot.

use std::fs;

use haul_test::compare::What;

use crate::support::World;

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
