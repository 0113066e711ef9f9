//! Accounts as they are set up elsewhere: other login shells, start-up files that talk, servers that allow less.

use haul_test::account::Account;
use haul_test::compare::{What, assert_same};

use crate::support::World;

fn account(shell: &str) -> Account {
    Account::new(shell).unwrap_or_else(|e| panic!("an account with {shell}: {e}"))
}

fn at(account: &Account, path: &str) -> String {
    format!("{}@testhost:{path}", account.name)
}

fn goes_and_comes_back(w: &World, there: &str) {
    w.tree("src: a=5:0640 big=3M d/b=300K d/e/f=3:0755 l->a");
    w.ends(0, &format!("cp src/ {there}"));
    w.ends(0, &format!("cp {there}/ back"));
    assert_same(&w.path("src"), &w.path("back"), What { mtime: Some(1_000_000_000), ..What::USUAL });
}

#[test]
fn every_login_shell_will_do() {
    let w = World::new("");
    for shell in ["/usr/bin/fish", "/bin/tcsh", "/bin/csh", "/bin/dash"] {
        let a = account(shell);
        w.tool("rm", &["-rf", "src", "back"]);
        let there = at(&a, "copy of a tree; $(touch hacked) `x`").replace(' ', "_");
        goes_and_comes_back(&w, &there);
        let names: Vec<_> = std::fs::read_dir(a.home()).expect("a home").map(|name| name.expect("a name").file_name()).collect();
        // What a shell keeps for itself has a dot in front.
        let names: Vec<_> = names.iter().filter(|name| !name.as_encoded_bytes().starts_with(b".")).collect();
        assert_eq!(names, ["copy_of_a_tree;_$(touch_hacked)_`x`"], "{shell}");
    }
}

#[test]
fn what_a_start_up_file_prints_is_shown_and_ends_the_run() {
    let w = World::new("");
    w.tree("src: a=5");
    // bash reads its file for a command from the network too.
    for (shell, file, line) in [
        ("/bin/bash", ".bashrc", "echo 'Welcome to the cluster!'"),
        ("/bin/tcsh", ".cshrc", "echo 'Welcome to the cluster!'"),
        ("/bin/tcsh", ".tcshrc", "echo 'Welcome to the cluster!'"),
        ("/usr/bin/fish", ".config/fish/config.fish", "echo 'Welcome to the cluster!'"),
    ] {
        let a = account(shell);
        a.file(file, &format!("{line}\n")).expect("written");
        for words in [format!("cp src/ {}", at(&a, "there")), format!("cp {} back", at(&a, "there")), format!("ls {}", at(&a, ""))] {
            let err = w.says(10, &words, &["testhost", "Welcome to the cluster!", "login scripts"]);
            assert!(err.lines().count() <= 3, "{shell}: {err}");
        }
        assert!(!a.home().join("there").exists());
    }
}

#[test]
fn what_a_start_up_file_says_on_standard_error_does_no_harm() {
    let w = World::new("");
    let a = account("/bin/bash");
    a.file(".bashrc", "echo 'Permission denied to strangers' >&2\n").expect("written");
    goes_and_comes_back(&w, &at(&a, "there"));
}

#[test]
fn what_is_printed_is_told_though_something_else_complains_too() {
    let w = World::new("");
    let a = account("/bin/bash");
    w.tree("src: a=5");
    a.file(".bashrc", "echo 'module: not found' >&2; echo Welcome; echo 'Permission denied' >&2\n").expect("written");
    w.says(10, &format!("cp src/ {}", at(&a, "there")), &["testhost", "Welcome", "login scripts"]);
}

#[test]
fn one_long_line_without_an_end_is_not_waited_for() {
    let w = World::new("");
    let a = account("/bin/bash");
    w.tree("src: a=5");
    a.file(".bashrc", "head -c 3000000 /dev/zero | tr '\\0' x\n").expect("written");
    let err = w.says(10, &format!("cp src/ {}", at(&a, "there")), &["testhost", "xxxx", "login scripts"]);
    assert!(err.len() < 1000, "{} bytes", err.len());
}

#[test]
fn an_escape_code_in_a_greeting_is_no_code_on_the_screen() {
    let w = World::new("");
    let a = account("/bin/bash");
    w.tree("src: a=5");
    a.file(".bashrc", "printf '\\033]0;title\\007hello\\n'\n").expect("written");
    let err = w.says(10, &format!("cp src/ {}", at(&a, "there")), &["hello"]);
    assert!(!err.contains('\x1b') && !err.contains('\x07'), "{err:?}");
}

#[test]
fn a_banner_of_the_server_does_not_disturb() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let banner = place.path().join("banner");
    std::fs::write(&banner, "Permission denied to everybody who may not.\nConnection refused is what they get.\n").expect("written");
    let w = World::new(&format!("Banner {}", banner.display()));
    goes_and_comes_back(&w, "testhost:~/there");
    // The words of the banner are not taken for the reason.
    let err = w.says(23, "cp testhost:~/absent dst", &["no such file"]);
    assert!(!err.contains("Permission denied"), "{err}");
    std::fs::write(w.server.path("known_hosts"), "").expect("written");
    w.says(10, "cp src/ testhost:~/x", &["Host key verification failed", "log in once"]);
}

#[test]
fn a_refusal_behind_a_banner_is_what_is_said() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let banner = place.path().join("banner");
    std::fs::write(&banner, "Connection refused is what strangers get.\n").expect("written");
    let w = World::new(&format!("Banner {}", banner.display()));
    w.tree("src: a=5");
    std::fs::write(w.server.path("authorized_keys"), "").expect("written");
    let err = w.says(10, "cp src/ testhost:~/x", &["Permission denied (", "run `ssh` to the same host"]);
    assert!(!err.contains("--port"), "{err}");
}

#[test]
fn a_server_without_sftp_says_so() {
    for lines in ["Subsystem other /bin/true", "Subsystem sftp /nonexistent/sftp-server", "Subsystem sftp /bin/true"] {
        let w = World::new(lines);
        w.tree("src: a=5");
        for words in ["cp src/ testhost:~/x", "cp testhost:~/src back", "ls testhost:"] {
            w.says(10, words, &["testhost", "SFTP"]);
        }
    }
}

#[test]
fn a_server_that_forces_its_own_sftp_will_do() {
    let w = World::new("ForceCommand internal-sftp");
    goes_and_comes_back(&w, "testhost:~/there");
}

#[test]
fn a_user_in_a_cage_has_its_root_for_a_home() {
    // Every directory on the way to it must be root's alone.
    let cage = std::path::Path::new("/run").join(format!("haul-cage-{}", std::process::id()));
    std::fs::create_dir(&cage).expect("made");
    let a = account("/bin/bash");
    let inside = cage.join("data");
    std::fs::create_dir(&inside).expect("made");
    a.give(&inside).expect("given");
    let w = World::new(&format!("Match User {}\n  ChrootDirectory {}\n  ForceCommand internal-sftp\nMatch all", a.name, cage.display()));
    w.tree("src: a=5:0640 big=3M d/b=300K l->a");
    let ran = [format!("cp src/ {}", at(&a, "data/there")), format!("cp {} back", at(&a, "/data/there/")), format!("ls {}", at(&a, ""))];
    let ran: Vec<_> = ran.iter().map(|words| (words, w.haul(words))).collect();
    let landed = inside.join("there").is_dir();
    std::fs::remove_dir_all(&cage).expect("removed");
    for (words, ran) in ran {
        let (out, err) = w.ended(0, words, ran);
        assert!(!out.contains(&cage.display().to_string()), "{out}{err}");
    }
    assert!(landed);
    assert_same(&w.path("src"), &w.path("back"), What { mtime: Some(1_000_000_000), ..What::USUAL });
}

#[test]
fn an_account_that_may_not_log_in_is_told_so() {
    let w = World::new("");
    w.tree("src: a=5");
    for (shell, telling) in [("/usr/sbin/nologin", "not available"), ("/bin/false", "offers SFTP to this account")] {
        let a = account(shell);
        w.says(10, &format!("cp src/ {}", at(&a, "there")), &["testhost", telling]);
    }
}
