//! Objects of which the service keeps no checksum but their ETag.

use haul_test::compare::What;
use haul_test::objects::scripted::{Action, Answer, Scripted, When};

use crate::support::World;

/// Objects of all kinds in `@/to/`, and no checksum in any answer.
fn world() -> (World, Scripted) {
    let (w, scripted) = World::scripted();
    w.tree("src: small=100K whole=21M parts=32M one=6M");
    w.haul("cp --part-size 5M src/parts src/one @/to/").ends(0);
    for name in ["small", "whole"] {
        w.put(format!("to/{name}").as_bytes(), &[("x-amz-meta-mtime", "1600000000")], &w.read(format!("src/{name}")));
    }
    strip(&scripted);
    (w, scripted)
}

fn strip(scripted: &Scripted) {
    for method in ["GET", "HEAD"] {
        let strip = Action::edit(|answer| answer.headers.retain(|(name, _)| !name.to_ascii_lowercase().starts_with("x-amz-checksum-")));
        scripted.rule(When::method(method), .., strip);
    }
}

/// A bit of what is read of `path` is another one, and no checksum comes.
fn damage(scripted: &Scripted, path: &str, times: impl std::ops::RangeBounds<usize>) {
    scripted.clear();
    damage_more(scripted, path, times);
}

fn damage_more(scripted: &Scripted, path: &str, times: impl std::ops::RangeBounds<usize>) {
    let flip = Action::edit(|answer| {
        answer.headers.retain(|(name, _)| !name.to_ascii_lowercase().starts_with("x-amz-checksum-"));
        if let Some(byte) = answer.body.get_mut(70_000) {
            *byte ^= 1;
        }
    });
    scripted.rule(When::method("GET").path(path), times, flip);
    strip(scripted);
}

#[test]
#[ignore = "full"]
fn objects_of_all_kinds_are_compared_with_their_etags() {
    let (w, scripted) = world();
    for (to, how) in [("a", "--chunk-size 3M -j 6"), ("b", "--chunk-size 8M -j 1"), ("c", "--chunk-size 5M"), ("d", "--no-check-etag")] {
        w.haul(&format!("cp {how} @/to/ {to}")).ends(0);
        w.assert_same("src", to, What::CONTENT);
    }
    for name in ["small", "whole", "parts", "one"] {
        for how in ["--chunk-size 3M -j 6", "--chunk-size 8M -j 1"] {
            damage(&scripted, &format!("to/{name}"), ..);
            let _absent = std::fs::remove_dir_all(w.path("bad"));
            w.haul(&format!("cp --verify {how} --retries 1 @/to/ bad")).ends(23).says("ETag").says("--no-check-etag");
            assert!(!w.path("bad").join(name).exists(), "{name}");
            damage(&scripted, &format!("to/{name}"), 1..=1);
            w.haul(&format!("cp {how} @/to/ bad")).ends(0);
            w.assert_same("src", "bad", What::CONTENT);
        }
    }
    damage(&scripted, "to/parts", ..);
    w.haul("mv @/to/parts moved").ends(23);
    assert!(w.keys().contains(&"to/parts".to_string()) && !w.path("moved").exists());
    w.haul("cp --no-check-etag @/to/parts left").ends(0);
    assert!(w.read("left") != w.read("src/parts"));
}

/// Some services give the first part an ETag of its own, and compare `If-Match` with that; others tell no size of any part.
#[test]
fn parts_with_etags_of_their_own_are_compared_and_parts_of_unknown_size_are_said() {
    let (w, scripted) = world();
    let parts = || When::method("HEAD").query("partNumber");
    for tells in [true, false] {
        scripted.clear();
        scripted.rule(parts().header("if-match", "\""), .., Action::Answer(Answer::new(412, "")));
        let own = Action::edit(|answer| {
            answer.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("etag"));
            answer.headers.push(("ETag".into(), "\"0123456789abcdef0123456789abcdef\"".into()));
        });
        scripted.rule(parts(), .., if tells { own } else { Action::Answer(Answer::new(501, "")) });
        damage_more(&scripted, "to/parts", ..);
        let copy = w.haul("cp --retries 1 @/to/parts bad");
        if tells {
            copy.ends(23).says("ETag");
        } else {
            copy.ends(0).says("not verified while read");
        }
    }
}

#[test]
fn what_landed_before_a_kill_is_compared_too() {
    let (w, scripted) = world();
    damage(&scripted, "to/whole", 1..=2);
    let command = "cp --json --chunk-size 3M -j 1 @/to/whole back";
    assert!(w.haul(command).killed_at(5).run().was_killed());
    scripted.clear();
    strip(&scripted);
    let second = w.haul(command).ends(0);
    assert!(second.number("resumed_bytes") > 0 && second.number("retries") > 0, "{second}");
    assert!(w.read("back") == w.read("src/whole"));
}

#[test]
fn objects_that_pass_through_to_another_bucket_are_compared() {
    let (w, scripted) = world();
    w.haul("cp --verify --part-size 6M @/to/ @/copy/").ends(0);
    for name in ["small", "whole", "parts", "one"] {
        assert!(w.get(&format!("copy/{name}")) == w.read(format!("src/{name}")), "{name}");
        damage(&scripted, &format!("to/{name}"), ..);
        w.haul(&format!("cp --verify --part-size 6M --retries 1 @/to/{name} @/bad")).ends(23).says("ETag");
    }
    assert!(!w.keys().contains(&"bad".to_string()));
}
