//! `haul bench report`: what it prints, and its page in a real browser (Debian's chromium).

#[path = "support.rs"]
mod support;

use std::fs;
use std::process::Command;

use generated::Made;
use haul_bench::report;
use haul_test::program::Ended;
use serde_json::Value;

#[path = "../../../haul-bench/tests/generated/mod.rs"]
mod generated;

use support::World;

impl World {
    fn new() -> World {
        World::of("report")
    }

    fn run(&self, name: &str, made: &Made) {
        self.write(format!("{name}/run.json"), serde_json::to_vec(&made.0).expect("a header"));
        let lines: Vec<String> = made.1.iter().map(|sample| serde_json::to_string(sample).expect("a sample") + "\n").collect();
        self.write(format!("{name}/samples.jsonl"), lines.concat());
    }
}

#[test]
fn one_run_is_printed_and_gets_its_page() {
    let world = World::new();
    world.run("net", &generated::net());
    let Ended { out, err, .. } = world.ends(0, "net");
    assert!(out.contains("16 streams: 24 % less") && out.contains("failed 1 of 10"), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    assert_eq!(err, "haul: report: net/report.html\n");
    let page = fs::read_to_string(world.path("net/report.html")).expect("the page");
    assert_eq!(page, report::html(&[generated::net()]));

    let Ended { err, .. } = world.ends(0, "--out elsewhere.html --quiet net");
    assert_eq!(err, "");
    assert_eq!(fs::read_to_string(world.path("elsewhere.html")).expect("the page"), page);
}

#[test]
fn several_runs_are_compared() {
    let world = World::new();
    world.run("before", &generated::compare());
    world.run("after", &generated::compare_later());
    let Ended { out, err, .. } = world.ends(0, "before after");
    assert!(out.contains("Run 1: before\nRun 2: after\n"), "{out}");
    assert!(out.contains("slower") && out.contains("not significant") && out.contains("only in the first run"), "{out}");
    assert_eq!(err, "");
    assert!(!world.path("before/report.html").exists());
    world.ends(0, "--out both.html before after");
    let page = fs::read_to_string(world.path("both.html")).expect("the page");
    assert!(page.contains("Run 2 against Run 1"), "{page}");

    let Ended { out, err, .. } = world.ends(0, "--json before after");
    let document: Value = serde_json::from_str(&out).expect("one document");
    assert_eq!(document["event"], "bench-report");
    assert_eq!(document["runs"].as_array().map(Vec::len), Some(2));
    let changes = document["differences"][0]["changes"].as_array().expect("changes");
    let rsync = changes.iter().find(|change| change["contender"] == "rsync").expect("rsync");
    assert_eq!(rsync["verdict"], "slower");
    assert!(rsync["time_ratio"]["median"].as_f64().is_some_and(|ratio| ratio > 1.2), "{rsync}");
    assert!(err.contains("not significant"), "{err}");
    let Ended { err, .. } = world.ends(0, "--json --quiet before after");
    assert_eq!(err, "");
}

#[test]
fn runs_on_data_of_several_sizes_become_one_plot() {
    let world = World::new();
    for (name, bytes) in [("small", 1 << 20), ("medium", 64 << 20), ("large", 4 << 30)] {
        world.run(name, &generated::compare_of(bytes));
    }
    let Ended { out, .. } = world.ends(0, "--width 100 --out page.html large small medium");
    assert!(out.contains("Time by size") && !out.contains("different amounts of work"), "{out}");
    let rows: Vec<&str> = out.lines().map(str::trim).filter(|line| line.starts_with("rclone ")).collect();
    for (row, size) in rows.iter().zip([" 1 MiB ", " 64 MiB ", " 4 GiB "]) {
        assert!(row.contains(size), "{rows:#?}");
    }
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    let page = fs::read_to_string(world.path("page.html")).expect("the page");
    assert_eq!(page.matches("<h2>Time by size</h2>").count(), 1);
}

#[test]
fn other_directories_are_refused() {
    let world = World::new();
    fs::create_dir(world.path("empty")).expect("made");
    let Ended { out, err, .. } = world.ends(23, "empty");
    assert_eq!(out, "");
    assert!(err.contains("empty/run.json") && err.contains("name the directory of a haul bench run"), "{err}");
    world.run("torn", &generated::net());
    fs::write(world.path("torn/samples.jsonl"), "{}\n").expect("written");
    let Ended { err, .. } = world.ends(23, "torn");
    assert!(err.contains("line 1"), "{err}");
    world.ends(1, "");
    world.ends(1, "--width 3 torn");
}

/// What a browser said: the document as it was in the end, and its log.
struct Looked {
    document: String,
    log: String,
}

impl Looked {
    /// Errors of scripts, violations of the policy, things that could not be loaded.
    fn complaints(&self) -> Vec<&str> {
        self.log.lines().filter(|line| line.contains("CONSOLE")).collect()
    }
}

/// Looks at a page as a person would, with no host within reach.
fn look(world: &World, page: &str) -> Looked {
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|ran| ran.status.success());
    let browser = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(runs);
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "120", browser.expect("no browser: install chromium and fonts-dejavu-core")]);
    command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-sync"]);
    command.args(["--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-extensions"]);
    command.args(["--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--v=0", "--hide-scrollbars"]);
    command.arg(format!("--user-data-dir={}", world.path("profile").display())).args(["--window-size=1400,2000"]);
    command.args(["--allow-file-access-from-files", "--virtual-time-budget=20000", "--timeout=60000", "--dump-dom"]);
    command.arg(format!("file://{}", world.path(page).display())).env("HOME", world.path("."));
    let ran = command.output().expect("the browser runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let looked = Looked { document: text(ran.stdout), log: text(ran.stderr) };
    assert!(ran.status.success() && !looked.document.is_empty(), "{}: {}", ran.status, looked.log);
    looked
}

/// Puts the report into frames of a telephone's and of a desk's width, and measures: the report itself has no script.
const RULER: &str = r#"<!DOCTYPE html><html><body><pre id="found"></pre><script>
const found = [];
function overlap(a, b) {
  return Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;
}
function measure(width, page) {
  const say = text => found.push(width + ' px: ' + text);
  if (page.body.innerHTML.length < 200) say('the page is empty');
  if (page.documentElement.scrollWidth > width) say('the page is ' + page.documentElement.scrollWidth + ' px wide');
  let drawn = 0;
  for (const figure of page.querySelectorAll('figure')) {
    const title = figure.querySelector('h3').textContent;
    const shown = figure.querySelector('svg[role=img]'), frame = shown.getBoundingClientRect();
    if (frame.width > 0) drawn++;
    const texts = [...shown.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
    for (const [text, box] of texts) {
      if (box.left < frame.left - 2 || box.right > frame.right + 2 || box.bottom > frame.bottom + 2 || box.top < frame.top - 2)
        say(title + ': "' + text + '" leaves the drawing');
      if (box.height < 10) say(title + ': "' + text + '" is ' + box.height + ' px high');
    }
    for (let i = 0; i < texts.length; i++)
      for (let j = 0; j < i; j++)
        if (overlap(texts[i][1], texts[j][1])) say(title + ': "' + texts[i][0] + '" lies on "' + texts[j][0] + '"');
  }
  for (const table of page.querySelectorAll('table')) {
    const box = table.parentElement;
    if (box.scrollWidth > box.clientWidth) say('a table is cut: ' + table.caption?.textContent);
    if (box.getBoundingClientRect().right > width) say('a table leaves its box');
  }
  return drawn;
}
async function all() {
  let drawn = [];
  for (const width of [390, 1280]) {
    const frame = document.createElement('iframe');
    frame.width = width; frame.height = 2000; frame.style.border = '0';
    const loaded = new Promise(done => frame.onload = done);
    frame.src = 'report.html';
    document.body.append(frame);
    await loaded;
    await frame.contentDocument.fonts.ready;
    drawn.push(measure(width, frame.contentDocument));
    frame.remove();
  }
  document.getElementById('found').textContent = JSON.stringify({drawn, found});
}
all().catch(e => { document.getElementById('found').textContent = JSON.stringify({drawn: [], found: [String(e)]}); });
</script></body></html>"#;

/// How many plots were drawn at each width, and what was wrong with them.
fn measured(looked: &Looked) -> (Vec<u64>, Vec<String>) {
    let inside = looked.document.split_once("<pre id=\"found\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let (json, _) = inside.unwrap_or_else(|| panic!("nothing was measured: {}\n{}", looked.document, looked.log));
    let json = json.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u{a0}").replace("&amp;", "&");
    let found: Value = serde_json::from_str(&json).unwrap_or_else(|e| panic!("{e}: {json}\n{}", looked.log));
    let wrong = found["found"].as_array().expect("a list").iter().map(|text| text.as_str().unwrap_or_default().to_string()).collect();
    (found["drawn"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect(), wrong)
}

#[test]
fn a_browser_shows_pages_whole_at_both_widths() {
    let world = World::new();
    let all = generated::all();
    let (odd, plain): (Vec<_>, Vec<_>) = all.into_iter().partition(|(name, _)| name.starts_with("odd") || name.starts_with("empty"));
    let odd = ("odd".to_string(), odd.into_iter().map(|(_, made)| made).collect::<Vec<_>>());
    for (name, runs) in plain.into_iter().map(|(name, made)| (name, vec![made])).chain([odd]) {
        world.write("report.html", report::html(&runs));
        world.write("ruler.html", RULER);
        let looked = look(&world, "ruler.html");
        let (drawn, wrong) = measured(&looked);
        assert_eq!((wrong, looked.complaints()), (Vec::new(), Vec::new()), "{name}");
        assert!(drawn.len() == 2 && drawn[0] > 0 && drawn[0] == drawn[1], "{name}: {drawn:?}");
    }
}

/// A script and an image that got in are stopped by the policy.
#[test]
fn nothing_in_a_page_runs_or_is_loaded() {
    let world = World::new();
    let page = report::html(&[generated::net()]);
    world
        .write("report.html", page.replace("<main>", "<main><script>document.title = 'taken'</script><img src=\"picture.png\" alt=\"\"/>"));
    let looked = look(&world, "report.html");
    let stopped = |what: &str| looked.complaints().iter().any(|line| line.contains("Content Security Policy") && line.contains(what));
    assert!(stopped("script") && stopped("img-src"), "{}", looked.log);
    assert!(!looked.document.contains("taken</title>"));
}
