//! Remote accounts that are not root's: other login shells, start-up files that talk, fewer rights.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use haul_test::account::Account;
use haul_test::compare::{What, assert_same};
use haul_test::scratch::entries;
use haul_test::sshd::Sshd;

use crate::agent::support::{HAUL, World};

fn world(tree: &str) -> World {
    let w = World::on(|_| Sshd::start("").expect("sshd can be started: openssh-server and root"));
    w.tree(tree);
    w
}

/// An account with haul where it is found.
fn account(shell: &str) -> Account {
    let account = Account::new(shell).unwrap_or_else(|e| panic!("an account with {shell}: {e}"));
    account.file(".local/bin/haul", "").expect("written");
    let haul = account.home().join(".local/bin/haul");
    let done = std::process::Command::new("install").arg(HAUL).arg(&haul).status();
    assert!(done.expect("install starts").success());
    account.give(&account.home().join(".local")).expect("given");
    account
}

#[test]
#[ignore = "full"]
fn every_login_shell_starts_it_and_may_talk() {
    let w = world("src: a=5:0640 big=3M d/b=300K d/e/f=3:0755 l->a");
    for (shell, file) in [
        ("/bin/bash", ".bashrc"),
        ("/bin/dash", ".profile"),
        ("/bin/tcsh", ".tcshrc"),
        ("/bin/csh", ".cshrc"),
        ("/usr/bin/fish", ".config/fish/config.fish"),
    ] {
        let a = account(shell);
        a.file(file, "echo 'Welcome to the cluster!'\n").expect("written");
        let there = format!("{}@testhost:there", a.name);
        w.plain(&format!("cp src/ {there}")).ends(0).says("by haul on the remote host").never_says("Welcome");
        assert_same(&w.path("src"), &a.home().join("there"), What::USUAL);
        w.plain(&format!("cp {there}/ back-{}", a.name)).ends(0);
        w.assert_same("src", format!("back-{}", a.name), What::USUAL);
    }
}

#[test]
fn what_the_remote_user_may_not_do_is_reported() {
    let w = world("src: mine=5:0640 d/theirs=6 d/late=7");
    w.sh("chown 4321:8765 src/d/theirs");
    let a = account("/bin/bash");
    let home = format!("{}@testhost:", a.name);
    let ended = w.plain(&format!("cp --json -a src/ {home}there")).ends(0);
    assert!(ended.finished()["refused"].to_string().contains("owner"), "{ended}");
    assert_same(&w.path("src"), &a.home().join("there"), What::USUAL);
    assert_eq!(a.home().join("there/d/theirs").metadata().expect("there").uid(), a.uid);
    // A directory of somebody else is neither written in nor read.
    let closed = a.home().join("closed");
    fs::create_dir(&closed).expect("made");
    fs::write(closed.join("secret"), "x").expect("written");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("set");
    for words in [format!("cp src/ {home}closed"), format!("cp {home}closed/ copy"), format!("rm -r {home}closed")] {
        w.plain(&words).ends(23).says("closed");
    }
    assert_eq!(entries(&closed), ["secret"]);
}

#[test]
fn the_remote_users_mask_counts_where_modes_are_not_kept() {
    let w = world("src: open=5:0666 d/x=6:0777 d/:0777");
    let a = account("/bin/bash");
    a.file(".bashrc", "umask 027\n").expect("written");
    w.plain(&format!("cp --no-perms src/ {}@testhost:there", a.name)).ends(0).says("by haul on the remote host");
    let mode = |path: &str| a.home().join("there").join(path).metadata().expect("there").mode() & 0o777;
    assert_eq!([mode("open"), mode("d"), mode("d/x")].map(|mode| format!("{mode:o}")), ["640", "750", "750"]);
    w.plain(&format!("cp src/ {}@testhost:exact", a.name)).ends(0);
    assert_same(&w.path("src"), &a.home().join("exact"), What::USUAL);
}

#[test]
fn a_default_acl_takes_the_place_of_the_mask() {
    let w = World::new("src: a=5:0666 d/x=6:0777 d/:0777");
    w.sh("mkdir top && setfacl -d -m u::rwx,g::rwx,o::rwx top");
    w.plain("cp --no-perms src/ top/local").ends(0);
    w.plain("cp --no-agent --no-perms src/ testhost:~/top/sftp").ends(0);
    w.haul("cp --no-perms src/ testhost:~/top/agent").ends(0);
    for copy in ["local", "sftp", "agent"] {
        let modes = ["", "/d", "/a", "/d/x"].map(|path| format!("{:o}", w.mode(format!("top/{copy}{path}"))));
        assert_eq!(modes, ["777", "777", "666", "777"], "{copy}");
    }
}
