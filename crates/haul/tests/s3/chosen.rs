//! Filters of `ls` and `rm`.

use crate::support::World;

const TREE: &str = "src: a.nc=10 b.tmp=20 d/c.nc=3000 d/e/f.tmp=40 d/e/g.nc=50 keep/h.tmp=60 keep/i=70";

#[test]
fn filters_choose_what_is_listed_and_removed() {
    let w = World::new();
    w.tree(TREE);
    w.haul("cp -a --no-markers src/ @/to/").ends(0);
    let listed = |words: &str| {
        let mut names: Vec<String> = w.haul(words).ends(0).out.lines().map(str::to_owned).collect();
        names.sort();
        names
    };
    for place in ["@/to/", "src/"] {
        assert_eq!(
            listed(&format!("ls -R --exclude *.nc --exclude keep/ {place}")).iter().filter(|name| !name.ends_with('/')).collect::<Vec<_>>(),
            ["b.tmp", "d/e/f.tmp"],
            "{place}"
        );
        assert_eq!(listed(&format!("ls --exclude *.nc {place}")), ["b.tmp", "d/", "keep/"], "{place}");
        let large = listed(&format!("ls -R --min-size 1K {place}"));
        assert_eq!(large.iter().filter(|name| !name.ends_with('/')).collect::<Vec<_>>(), ["d/c.nc"], "{place}");
    }
    // Nothing is so old, and a whole prefix that is left is no error.
    w.haul("rm -r --older-than 1d @/to/").ends(0);
    w.haul("rm -r --older-than 1d src").ends(0);
    assert_eq!(w.keys().len(), 7);
    let dry = w.haul("rm -rn --exclude *.nc --exclude /keep/ @/to/").ends(0);
    assert_eq!(format!("{dry}").matches("would remove").count(), 2, "{dry}");
    w.haul("rm -r --exclude *.nc --exclude /keep/ @/to/").ends(0);
    assert_eq!(w.keys(), ["to/a.nc", "to/d/c.nc", "to/d/e/g.nc", "to/keep/h.tmp", "to/keep/i"]);
    w.haul("rm --exclude *.nc @/to/a.nc").ends(0);
    w.haul("rm @/to/a.nc").ends(0);
    w.haul("rm --exclude c.* @/to/d/*.nc").ends(0);
    assert_eq!(w.keys(), ["to/d/c.nc", "to/d/e/g.nc", "to/keep/h.tmp", "to/keep/i"]);
    w.haul("rm -r --max-size 100B @/to/").ends(0);
    assert_eq!(w.keys(), ["to/d/c.nc"]);
    // Markers go with the last that is in their directory, and stay with what is kept.
    w.haul("cp -a src/ @/marked/").ends(0);
    w.haul("rm -r --include *.tmp --include */ --exclude * @/marked/").ends(0);
    let kept = [
        "to/d/c.nc",
        "marked/",
        "marked/a.nc",
        "marked/d/",
        "marked/d/c.nc",
        "marked/d/e/",
        "marked/d/e/g.nc",
        "marked/keep/",
        "marked/keep/i",
    ];
    assert_eq!(w.keys(), [&kept[1..], &kept[..1]].concat());
    w.haul("rm -r --max-size 60B @/marked/d/").ends(0);
    assert_eq!(w.keys(), [&kept[1..5], &kept[7..], &kept[..1]].concat());
    w.haul("rm --uploads --force --exclude x @/").ends(1).says("--older-than");
}

#[test]
fn with_filters_only_emptied_directories_go() {
    let w = World::new();
    w.tree(TREE);
    w.tree("src: was-empty/ only/deep/x.tmp=1 only/y.tmp=1");
    w.haul("rm -r --include *.tmp --include */ --exclude * src").ends(0);
    assert_eq!(w.list("src"), ["a.nc", "d/", "d/c.nc", "d/e/", "d/e/g.nc", "keep/", "keep/i", "was-empty/"]);
    w.haul("rm -r --max-size 60B src/d src/keep").ends(0);
    assert_eq!(w.list("src"), ["a.nc", "d/", "d/c.nc", "keep/", "keep/i", "was-empty/"]);
    w.haul("rm --exclude *.nc src/a.nc").ends(0);
    assert!(w.has("src/a.nc"));
    w.haul("rm --exclude x src/a.nc").ends(0);
    assert!(!w.has("src/a.nc"));
}
