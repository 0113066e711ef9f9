//! What each event of the engine prints.

use std::time::Duration;

use haul_core::entry::{Entry, Kind};
use haul_core::error::{Error, ErrorKind};
use haul_core::event::{Action, Event, Observer, Progress, Warning, Why};
use haul_core::report::{Ending, Report};

use super::json::{self, Record};
use super::summary::{self, Context};
use super::{Listing, Renderer, State, lines, live};
use crate::text;

/// Failures written out while the run goes on; beyond that they are counted, unless `-v` asks for all.
const FAILURES_INLINE: u64 = 20;

/// A `progress` record of `--json` comes no more often than this.
const JSON_PROGRESS: Duration = Duration::from_secs(1);

impl Renderer {
    fn started(&self, state: &mut State, sentence: &str) {
        state.started = (self.options.clock.now)();
        if self.options.follower.is_some() {
            return;
        }
        let plan = lines::plain(sentence);
        let run = std::mem::take(&mut state.run);
        let started = Record::Started {
            version: json::VERSION,
            plan: sentence,
            dry: self.options.dry,
            job: run.job.as_deref(),
            sources: &run.sources,
            destination: run.destination.as_deref(),
        };
        self.record(state, &started);
        state.run = run;
        self.log(state, &plan);
        if !self.options.quiet {
            for line in text::fold(&plan, self.width(state).unwrap_or(usize::MAX), 2) {
                self.line(state, &line);
            }
        }
        self.sync(state);
    }

    fn item(&self, state: &mut State, action: Action, why: Why, entry: &Entry, dry: bool) {
        let options = &self.options;
        if options.json {
            self.record(state, &Record::Item(json::Item::of(action, why, entry, dry)));
        }
        if state.log.is_some() {
            self.log(state, &lines::explained(action, why, entry));
        }
        for (_, list) in state.lists.iter_mut().filter(|(listed, _)| *listed == action) {
            list.names.put(&entry.name.path(), &mut list.sink);
        }
        let differs = matches!(action, Action::Missing | Action::Differs | Action::Extra);
        if options.names.is_some() {
            // What is only at the destination is nothing that could be copied.
            if matches!(action, Action::Missing | Action::Differs) {
                self.name(state, entry);
            }
        } else if options.json || options.quiet {
        } else if options.itemize {
            // rsync does not itemize what it passes over, nor what it links to a reference tree.
            if action != Action::Skip && (action, why) != (Action::HardLink, Why::Same) {
                self.line(state, &lines::itemised(action, why, entry, options.no_times));
            }
        } else if options.dry || options.verbose > 1 {
            self.line(state, &lines::explained(action, why, entry));
        } else if options.verbose > 0 || differs {
            self.line(state, &lines::done(action, entry));
        }
    }

    fn name(&self, state: &mut State, entry: &Entry) {
        self.erase(state);
        state.names.put(&entry.name.path(), &mut state.out);
    }

    fn failed(&self, state: &mut State, error: &Error, kind: Kind) {
        state.failures += 1;
        self.record(state, &Record::Failed(json::Failed::of(error, kind)));
        if let (Some(list), Some(path)) = (&mut state.failed_to, error.path())
            && error.kind() != ErrorKind::Vanished
        {
            list.names.put(path, &mut list.sink);
        }
        let told = lines::failure(error);
        if self.options.verbose > 0 || state.failures <= FAILURES_INLINE {
            for (n, line) in told.iter().enumerate() {
                self.error_line(state, if n == 0 { "haul: " } else { "" }, if n == 0 { "31" } else { "" }, line);
            }
            return;
        }
        for line in &told {
            self.log(state, line);
        }
        if state.failures == FAILURES_INLINE + 1 {
            let all = match (&state.failed_to, &state.log) {
                (Some(list), _) => list.contents(),
                (None, Some(_)) => "the log has all of them".into(),
                (None, None) => "--failed-to FILE or --log FILE records all".into(),
            };
            self.erase(state);
            state.err.line(&format!("haul: further errors are only counted; {all}"));
        }
    }

    fn warned(&self, state: &mut State, warning: &Warning) {
        if self.options.json {
            self.record(state, &Record::Warned(json::Warned::of(warning)));
        }
        let text = lines::warning(warning);
        // The live view shows a stall while it lasts.
        if self.options.live && matches!(warning, Warning::Stalled { .. }) {
            self.log(state, &text);
        } else {
            self.error_line(state, "haul: warning: ", "33", &text);
        }
    }

    fn progress(&self, state: &mut State, moment: &Progress) {
        if self.options.follower.is_some() {
            return self.sync(state);
        }
        let around = self.around(state);
        if self.options.json && moment.elapsed >= state.next_json {
            let period = if self.options.progress.is_zero() { JSON_PROGRESS } else { self.options.progress.min(JSON_PROGRESS) };
            state.next_json = moment.elapsed + period;
            self.record(state, &Record::Progress(json::Moment::of(moment, around.retries)));
        }
        let totals = self.options.shows_totals && !self.options.live && !self.options.quiet && moment.walk_done && !state.totals;
        if totals {
            state.totals = true;
            self.line(state, &lines::progress(moment, around));
        }
        let period = self.options.progress;
        if !period.is_zero() && moment.elapsed >= state.next_line {
            while state.next_line <= moment.elapsed {
                state.next_line += period;
            }
            let line = lines::progress(moment, around);
            self.log(state, &line);
            if !self.options.live && !self.options.quiet {
                self.line(state, &line);
            }
        }
        if let Some(warning) = state.late.observe(moment.elapsed, moment.eta()) {
            self.warned(state, &Warning::Note(warning));
        }
        if self.options.live && !state.finished {
            state.out.flush();
            let size = (state.size)();
            let frame = live::frame(moment, around, size, self.options.unicode);
            let drawing = state.screen.draw(&frame, size);
            state.err.bytes(drawing.as_bytes());
        }
        state.last = Some(moment.clone());
        self.sync(state);
    }

    fn finished(&self, state: &mut State, report: &Report) {
        state.finished = true;
        self.erase(state);
        if self.options.follower.is_some() {
            return self.sync(state);
        }
        if self.options.json {
            self.record(state, &Record::Finished(Box::new(json::Finished::of(report))));
        }
        let clock = &self.options.clock;
        let context = Context {
            mode: self.options.mode,
            stat: self.options.stat,
            started: clock.local(state.started),
            completed: clock.local((clock.now)()),
            command: self.options.command.clone(),
            failed_to: state.failed_to.as_ref().map(Listing::contents),
            width: self.width(state),
            network: state.run.network,
            starts_over: state.run.starts_over,
        };
        for line in summary::summary(report, &context) {
            self.log(state, &line);
            if !self.options.quiet {
                self.line(state, &line);
            }
        }
        if self.options.quiet && report.ending != Ending::Complete {
            self.error_line(state, "haul: ", "", summary::ended(report.ending, context.starts_over));
        }
        let left_out = state.failed_to.as_ref().map_or(0, |list| list.names.left_out())
            + state.names.left_out()
            + state.lists.iter().map(|(_, list)| list.names.left_out()).sum::<u64>();
        if left_out > 0 {
            let text =
                format!("{} with a newline in the name omitted from the list; --from0 includes them", text::things(left_out, "entry"));
            self.error_line(state, "haul: warning: ", "33", &text);
        }
        self.sync(state);
    }
}

impl Observer for Renderer {
    fn flush(&self, most: Duration) {
        self.sync(&mut self.state());
        if let Some(lines) = &self.options.lines {
            lines.flush(most);
        }
    }

    fn names(&self) -> fn(haul_core::hint::Choice) -> &'static str {
        crate::hints::option
    }

    fn on(&self, event: &Event<'_>) {
        let state = &mut *self.state();
        match event {
            Event::Started { sentence } => self.started(state, sentence),
            Event::Item { action, why, entry, dry } => self.item(state, *action, *why, entry, *dry),
            Event::Failed { error, kind } => self.failed(state, error, *kind),
            Event::Retried { error, again } => {
                state.retries += 1;
                self.record(state, &Record::Retried(json::Retried::of(error, *again)));
                let line = lines::retried(error, *again);
                if self.options.verbose > 0 {
                    self.error_line(state, "haul: ", "", &line);
                } else {
                    self.log(state, &line);
                }
            }
            Event::Refused { entry, refused } => {
                self.record(state, &Record::Refused(json::Refused::of(entry, *refused)));
                let line = lines::refused(entry, *refused);
                if self.options.verbose > 1 {
                    self.error_line(state, "haul: ", "", &line);
                } else if self.options.verbose > 0 {
                    self.log(state, &line);
                }
            }
            Event::Warned(warning) => self.warned(state, warning),
            Event::Tuned(limits) => {
                self.record(state, &Record::Tuned { workers: limits.workers });
                if self.options.verbose > 1 && !self.options.quiet {
                    self.line(state, &format!("tuned: {}", text::things(u64::from(limits.workers), "worker")));
                }
            }
            Event::Progress(moment) => self.progress(state, moment),
            Event::Finished(report) => self.finished(state, report),
        }
    }

    fn wants(&self, action: Action) -> bool {
        let o = &self.options;
        match action {
            Action::Keep => o.verbose > 1 && (o.json || !o.quiet),
            Action::Missing | Action::Extra | Action::Differs => {
                self.lists || self.logs || o.json || o.names.is_some() || !o.quiet || o.verbose > 0
            }
            _ => self.logs || o.json || o.verbose > 0 || !o.quiet && (o.itemize || o.dry),
        }
    }
}
