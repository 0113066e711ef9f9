//! The live view: a frame of a few lines, drawn in place below everything else that is printed.
//!
//! `frame` says what it shows and is pure; `Screen` knows how to replace the frame before. A line is
//! always shorter than the terminal is wide, so that the terminal never wraps one and the number of rows
//! to go back is known. The cursor is never hidden: a run that is killed leaves a usable terminal.

use std::fmt::Write as _;

use haul_core::event::Progress;

use crate::spread::SpreadFigures;

use super::lines::{Around, STALLED, bits, left, slowest, stalled, troubles};
use crate::text::{bytes, bytes_of, clip, clock, columns, count, frequency, join, percent, rates, things};

/// Below this a frame says too little; the line of a job log is shown instead, clipped.
const NARROWEST: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub columns: usize,
    pub rows: usize,
}

impl Default for Size {
    fn default() -> Self {
        Size { columns: 80, rows: 24 }
    }
}

/// The lines of a moment, each shorter than `size.columns`, at most one less than `size.rows`.
pub fn frame(p: &Progress, around: Around, size: Size, unicode: bool) -> Vec<String> {
    let width = size.columns.saturating_sub(1).max(1);
    let mut lines = if width < NARROWEST {
        vec![super::lines::progress(p, around)]
    } else {
        vec![headline(p, around, width, unicode), speed(p, around, width), times(p, around, width), ranks(p, width), file(p, width)]
    };
    lines.retain(|line| !line.is_empty());
    lines.truncate(size.rows.saturating_sub(1).max(1));
    for line in &mut lines {
        line.truncate(clip(line, width).len());
    }
    lines
}

/// Phase, what is done and, when the total is known, a bar.
fn headline(p: &Progress, around: Around, width: usize, unicode: bool) -> String {
    let phase = match p.phase {
        "" if around.check => "comparing",
        "" => "copying",
        phase => phase,
    };
    let passed = p.moved_bytes + p.resumed_bytes;
    let nothing_planned = p.planned_files == 0 && p.planned_bytes == 0;
    if around.check || (nothing_planned && p.walk_done) {
        return join(&[phase.to_string(), format!("{} compared", things(p.found, "entry"))], "  ", width);
    }
    if !p.walk_done {
        return join(&[phase.to_string(), format!("{} done", things(p.done_files, "file")), bytes(passed)], "  ", width);
    }
    let done = if p.planned_bytes > 0 { percent(passed, p.planned_bytes) } else { percent(p.done_files, p.planned_files) };
    // Bytes are all there a moment before the last file is.
    let done = if p.done_files < p.planned_files { done.min(99) } else { done };
    let files = format!("{} of {} files", count(p.done_files), count(p.planned_files));
    let data = bytes_of(passed.min(p.planned_bytes), p.planned_bytes, " of ");
    let tail = format!("{done:>3}%  {data}  {files}");
    let room = width.saturating_sub(columns(phase) + columns(&tail) + 6).min(50);
    if room < 5 {
        return join(&[phase.to_string(), format!("{done}%"), data, files], "  ", width);
    }
    format!("{phase}  [{}] {tail}", bar(done, room, unicode))
}

fn bar(percent: u64, room: usize, unicode: bool) -> String {
    let full = (percent as usize * room / 100).min(room);
    let (done, open) = if unicode { ("\u{2588}", "\u{2591}") } else { ("#", "-") };
    done.repeat(full) + &open.repeat(room - full)
}

fn speed(p: &Progress, around: Around, width: usize) -> String {
    let mut parts = vec![
        format!("  {}", rates(p.rate_now, p.rate_mean())),
        format!("{} files/s", frequency(p.files_now)),
        things(u64::from(p.workers), "worker"),
    ];
    if p.kept > 0 {
        parts.push(format!("{} unchanged", count(p.kept)));
    }
    if p.resumed_bytes > 0 {
        parts.push(format!("{} resumed", bytes(p.resumed_bytes)));
    }
    let bits = bits(p, around);
    if columns(&parts.join("   ")) + columns(&bits) <= width {
        parts[0].push_str(&bits);
    }
    join(&parts, "   ", width)
}

fn times(p: &Progress, around: Around, width: usize) -> String {
    let mut parts = vec![format!("  {} elapsed", clock(p.elapsed))];
    parts.extend(troubles(p, around));
    if !p.walk_done && !around.check {
        parts.push(format!("still listing: at least {}, {}", things(p.planned_files, "file"), bytes(p.planned_bytes)));
    } else if p.idle < STALLED {
        parts.push(left(p));
    }
    join(&parts, "   ", width)
}

fn ranks(p: &Progress, width: usize) -> String {
    p.spread.as_ref().map(|spread| clip(&format!("  {}", SpreadFigures::from(spread).short()), width).to_string()).unwrap_or_default()
}

fn file(p: &Progress, width: usize) -> String {
    match (stalled(p, width - 2), &p.slowest) {
        (Some(notice), _) => format!("  {notice}"),
        (None, Some(file)) => format!("  {}", slowest(file, width - 2)),
        (None, None) => String::new(),
    }
}

/// What of the terminal the frame covers now.
#[derive(Debug, Default)]
pub struct Screen {
    drawn: Vec<usize>,
}

impl Screen {
    /// The control sequence that takes the frame away and leaves the cursor where it began.
    pub fn erase(&mut self, size: Size) -> String {
        let mut out = String::new();
        self.back(size, &mut out);
        if !self.drawn.is_empty() {
            out.push_str("\x1b[J");
        }
        self.drawn.clear();
        out
    }

    /// The control sequence and text that put `lines` in the place of the frame before.
    pub fn draw(&mut self, lines: &[String], size: Size) -> String {
        let mut out = String::new();
        self.back(size, &mut out);
        for line in lines {
            out.push_str(line);
            out.push_str("\x1b[K\n");
        }
        out.push_str("\x1b[J");
        self.drawn = lines.iter().map(|line| columns(line)).collect();
        out
    }

    pub fn is_drawn(&self) -> bool {
        !self.drawn.is_empty()
    }

    /// A terminal that has become narrower has wrapped the old lines into more rows.
    fn back(&self, size: Size, out: &mut String) {
        let width = size.columns.max(1);
        let rows: usize = self.drawn.iter().map(|used| used.div_ceil(width).max(1)).sum();
        let rows = rows.min(size.rows.saturating_sub(1));
        if rows > 0 {
            let _infallible = write!(out, "\x1b[{rows}A\r");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::fixtures::moving;
    use super::*;

    const NARROW: Size = Size { columns: 80, rows: 24 };
    const WIDE: Size = Size { columns: 200, rows: 50 };

    fn shown(p: &Progress, around: Around, size: Size) -> String {
        frame(p, around, size, false).join("\n")
    }

    #[test]
    fn frames_at_80_and_200_columns() {
        let p = moving();
        let around = Around { retries: 12, ..Around::default() };
        insta::assert_snapshot!(shown(&p, around, NARROW), @"
        copying  [#####---------------]  29%  1.20 of 4.05 GiB  12,345 of 37,760 files
          15.5 MiB/s now, 13.7 mean   141 files/s   8 workers
          00:01:30 elapsed   12 retries   about 3 min 08 s left
          slowest: experime...1-01_00:00:00.nc  write  1.20 of 3.40 GiB (35%)  for 12 s
        ");
        insta::assert_snapshot!(shown(&p, around, WIDE), @"
        copying  [##############------------------------------------]  29%  1.20 of 4.05 GiB  12,345 of 37,760 files
          15.5 MiB/s now, 13.7 mean   141 files/s   8 workers
          00:01:30 elapsed   12 retries   about 3 min 08 s left
          slowest: experiments/run7/output/d01/2024/wrfout_d01_2024-01-01_00:00:00.nc  write  1.20 of 3.40 GiB (35%)  for 12 s
        ");
        insta::assert_snapshot!(frame(&p, around, NARROW, true)[0], @"copying  [█████░░░░░░░░░░░░░░░]  29%  1.20 of 4.05 GiB  12,345 of 37,760 files");
    }

    #[test]
    fn a_frame_while_the_walk_runs_names_no_total() {
        let p = Progress { walk_done: false, failed: 3, resumed_bytes: 1 << 30, ..moving() };
        insta::assert_snapshot!(shown(&p, Around::default(), NARROW), @"
        copying  12,345 files done  2.20 GiB
          15.5 MiB/s now, 13.7 mean   141 files/s   8 workers   1.00 GiB resumed
          00:01:30 elapsed   3 failed   still listing: at least 37,760 files, 4.05 GiB
          slowest: experime...1-01_00:00:00.nc  write  1.20 of 3.40 GiB (35%)  for 12 s
        ");
        insta::assert_snapshot!(shown(&p, Around::default(), WIDE), @"
        copying  12,345 files done  2.20 GiB
          15.5 MiB/s now, 13.7 mean   141 files/s   8 workers   1.00 GiB resumed
          00:01:30 elapsed   3 failed   still listing: at least 37,760 files, 4.05 GiB
          slowest: experiments/run7/output/d01/2024/wrfout_d01_2024-01-01_00:00:00.nc  write  1.20 of 3.40 GiB (35%)  for 12 s
        ");
    }

    #[test]
    fn rates_of_networks_are_in_bits_too_where_the_line_stays_whole() {
        let around = Around { network: true, ..Around::default() };
        let speed = |p: &Progress, columns| frame(p, around, Size { columns, rows: 24 }, false)[1].clone();
        assert_eq!(speed(&moving(), 80), "  15.5 MiB/s now, 13.7 mean (0.130 Gbit/s)   141 files/s   8 workers");
        assert_eq!(speed(&moving(), 60), "  15.5 MiB/s now, 13.7 mean   141 files/s   8 workers");
        let more = Progress { resumed_bytes: 1 << 30, ..moving() };
        assert_eq!(speed(&more, 86), "  15.5 MiB/s now, 13.7 mean   141 files/s   8 workers   1.00 GiB resumed");
    }

    #[test]
    fn several_ranks_are_shown_by_their_least_middle_and_most() {
        let p = Progress { spread: Some(crate::spread::tests::spread()), ..moving() };
        insta::assert_snapshot!(frame(&p, Around::default(), WIDE, false)[3], @"  16 ranks: 2,201 / 2,360 / 2,410 files, 120 MiB / 130 MiB / 150 MiB each, slow: rank 7 on n03");
        assert!(crate::render::lines::progress(&p, Around::default()).ends_with(" each, slow: rank 7 on n03"));
    }

    #[test]
    fn a_stall_says_where() {
        let p = Progress { idle: Duration::from_secs(12), rate_now: 0.0, ..moving() };
        insta::assert_snapshot!(shown(&p, Around::default(), NARROW), @"
        copying  [#####---------------]  29%  1.20 of 4.05 GiB  12,345 of 37,760 files
          0 B/s now, 13.7 MiB/s mean   141 files/s   8 workers
          00:01:30 elapsed
          no progress for 12 s; waiting for write of experiment...024-01-01_00:00:00.nc
        ");
    }

    #[test]
    fn a_check_shows_what_was_compared() {
        let p = Progress { found: 1_234_567, workers: 4, elapsed: Duration::from_secs(61), ..Progress::default() };
        insta::assert_snapshot!(shown(&p, Around { check: true, ..Around::default() }, NARROW), @"
        comparing  1,234,567 entries compared
          0 B/s now, 0 mean   0 files/s   4 workers
          00:01:01 elapsed   still listing
        ");
    }

    #[test]
    fn no_line_reaches_the_last_column_and_no_frame_the_last_row() {
        let mut p = moving();
        if let Some(file) = &mut p.slowest {
            file.path = "\u{6771}\u{4eac}/".repeat(80).into_bytes();
        }
        let stalled = Progress { idle: Duration::from_secs(3_000), ..p.clone() };
        let listing = Progress { walk_done: false, ..p.clone() };
        let huge = Progress { planned_bytes: u64::MAX, moved_bytes: u64::MAX / 2, planned_files: u64::MAX, failed: u64::MAX, ..p.clone() };
        for p in [p, stalled, listing, huge, Progress::default()] {
            for width in 1..220 {
                for rows in [1, 2, 3, 5, 24] {
                    let lines = frame(&p, Around { retries: 9, ..Around::default() }, Size { columns: width, rows }, true);
                    assert!(lines.len() <= rows.saturating_sub(1).max(1));
                    for line in lines {
                        assert!(columns(&line) < width.max(2), "{width}: {line:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_frame_is_replaced_in_place_and_goes_back_further_after_a_resize() {
        let mut screen = Screen::default();
        assert_eq!(screen.erase(NARROW), "", "nothing to take away");
        let two = ["a".repeat(150), "b".into()];
        assert!(!screen.draw(&two, WIDE).contains('\r'), "the first frame begins where the cursor is");
        assert!(screen.draw(&two, WIDE).starts_with("\x1b[2A\r"));
        assert!(screen.draw(&two, NARROW).starts_with("\x1b[3A\r"), "150 columns are two rows of 80");
        assert_eq!(screen.erase(WIDE), "\x1b[2A\r\x1b[J");
        assert!(!screen.is_drawn());
    }
}
