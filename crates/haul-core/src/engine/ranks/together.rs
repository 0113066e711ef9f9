//! What all ranks do together: the steps at the end, the display, watching each other, the last report.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crate::engine::context::Context;
use crate::entry::Kind;
use crate::error::{Error, ErrorKind};
use crate::event::Event;
use crate::lock::lock;
use crate::report::{Ending, Report};
use crate::spread::{RankWork, Spread};
use crate::team::counts;
use crate::team::message::{Counts, Message, Tally, WorkNumbers};
use crate::verdict::Curve;

use super::{Desk, Heard, Ranks, node};

/// How long ranks wait for each other at the end of a job that was stopped.
const GRACE: Duration = Duration::from_secs(2);
/// Between two signs of life, and between two for the display of rank 0.
const BEAT: Duration = Duration::from_secs(5);
const DISPLAY: Duration = Duration::from_secs(1);

impl Ranks {
    /// Rank 0: all others are to do a step; `linked` is what each gets of names of files with several.
    pub fn begin_step(&self, cx: &Context, step: u32, linked: &HashMap<u32, u64>) {
        self.desk().done.clear();
        for rank in self.others() {
            let linked = linked.get(&rank).copied().unwrap_or(0);
            self.send(cx, rank, &Message::Step { step, linked });
        }
    }

    /// Rank 0: whether all others have done the step.
    pub fn all_done(&self) -> bool {
        self.desk().done.len() as u32 + 1 == self.team.transport.ranks()
    }

    /// Rank 0: what the others said at its end.
    pub fn tallies(&self) -> Vec<(u32, Tally)> {
        std::mem::take(&mut self.desk().done)
    }

    /// The step to be done next, if rank 0 has begun one.
    pub fn take_step(&self) -> Option<(u32, u64)> {
        self.desk().step.take()
    }

    pub fn end_step(&self, cx: &Context, step: u32, tally: Tally, (counts, work): (Counts, RankWork)) {
        self.send(cx, 0, &Message::Alive(node(), counts, work.numbers()));
        self.send(cx, 0, &Message::StepDone { step, tally });
    }

    pub fn linked_received(&self) -> u64 {
        self.desk().linked
    }

    /// Rank 0: how far all others are together.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for heard in self.desk().heard.values() {
            sum.iter_mut().zip(heard.counts).for_each(|(sum, count)| *sum += count);
        }
        sum
    }

    /// What this rank has done, by its report.
    pub fn work(&self, report: &Report, processors: u32) -> RankWork {
        RankWork::of(report, self.rank(), node(), processors)
    }

    /// Rank 0: what all ranks that were heard of have done, in their order; this one `own`.
    fn all_work(&self, own: RankWork) -> Vec<RankWork> {
        let desk = self.desk();
        let heard = desk.heard.iter().filter(|(_, heard)| !heard.node.is_empty());
        let others = heard.map(|(rank, heard)| RankWork::from_numbers(*rank, heard.node.clone(), heard.work));
        let mut all: Vec<RankWork> = others.chain([own]).collect();
        drop(desk);
        all.sort_by_key(|work| work.rank);
        all
    }

    /// Rank 0: how the work is spread over all ranks.
    pub fn spread(&self, own: RankWork) -> Option<Spread> {
        Spread::of(&self.all_work(own))
    }

    /// Rank 0: limits the workers of all ranks together to as many as gain something.
    pub fn tune(&self, cx: &Context, own: impl FnOnce() -> RankWork) {
        let now = cx.clock.began.elapsed();
        let mut tuner = lock(&self.tuner);
        if !tuner.is_due(now) {
            return;
        }
        if !tuner.look(now, &self.all_work(own())) {
            return;
        }
        let shares: Vec<(u32, u32)> = self.others().map(|rank| (rank, tuner.share(rank))).collect();
        self.share.store(tuner.share(0), Ordering::Relaxed);
        drop(tuner);
        shares.into_iter().for_each(|(rank, most)| self.send(cx, rank, &Message::Workers(most)));
    }

    /// Rank 0: divides the rate that the job is limited to among those that have something to move.
    pub fn limit(&self, cx: &Context, own: impl FnOnce() -> RankWork) {
        let now = cx.clock.began.elapsed();
        let mut limit = lock(&self.limit);
        let Some(team) = limit.as_mut().filter(|team| team.is_due(now)) else { return };
        let moved: Vec<u64> = self.all_work(own()).iter().map(|work| work.bytes).collect();
        if !team.look(now, &moved) {
            return;
        }
        let shares: Vec<(u32, u64)> = self.others().map(|rank| (rank, team.share(rank))).collect();
        cx.meter.limit_to(team.share(0));
        drop(limit);
        shares.into_iter().for_each(|(rank, rate)| self.send(cx, rank, &Message::Limit(rate)));
    }

    /// Of this rank.
    pub fn most_workers(&self) -> u32 {
        self.share.load(Ordering::Relaxed)
    }

    /// What more workers of all ranks brought.
    pub fn curve(&self) -> Option<Curve> {
        lock(&self.tuner).curve()
    }

    /// Shows that this rank is alive and how far it is, and ends the job if another is not.
    pub fn watch(&self, cx: &Context, now: Instant, counts: impl FnOnce() -> (Counts, RankWork)) {
        let mut desk = self.desk();
        if desk.next_beat.is_some_and(|next| now < next) {
            return;
        }
        let beat = if self.leads() { BEAT } else { DISPLAY };
        desk.next_beat = Some(now + beat.min(self.team.silence / 4));
        let silent = |(rank, heard): (&u32, &Heard)| {
            let watched = self.leads() || *rank == 0;
            // What a rank has sent may wait here, unread: a message can take the receiver long that has it look things up.
            let silence = now.saturating_duration_since(heard.at).saturating_sub(desk.busy.saturating_sub(heard.busy));
            (watched && silence > self.team.silence).then(|| (*rank, heard.node.clone()))
        };
        let silent = if desk.is_busy { None } else { desk.heard.iter().find_map(silent) };
        drop(desk);
        if let Some((rank, node)) = silent {
            let on = if node.is_empty() { String::new() } else { format!(" on {node}") };
            let e = Error::new(ErrorKind::Broken, "work together");
            return self.lost(cx, &e.because(format!("rank {rank}{on} has not responded for {} s", self.team.silence.as_secs())));
        }
        let (counts, work) = counts();
        let alive = Message::Alive(node(), counts, work.numbers());
        match self.leads() {
            true => self.others().for_each(|rank| self.send(cx, rank, &alive)),
            false => self.send(cx, 0, &alive),
        }
    }

    /// Rank 0: its supervisor may have to wait for a terminal that is stopped, or a pipe that nobody reads, and at the end for reports.
    /// That is no reason for the others to end the job.
    pub fn beat_while_printing(&self, cx: &Context) {
        let beat = BEAT.min(self.team.silence / 4);
        let mut was_printing = false;
        loop {
            let desk = self.news.wait_timeout_while(self.desk(), beat, |_| !self.over.load(Ordering::Acquire));
            drop(desk.unwrap_or_else(PoisonError::into_inner));
            if self.over.load(Ordering::Acquire) {
                return;
            }
            let is_printing = cx.out.observer.is_printing();
            if is_printing && was_printing || self.ending.load(Ordering::Relaxed) {
                let alive = Message::Alive(node(), Counts::default(), WorkNumbers::default());
                self.others().for_each(|rank| self.try_send(rank, &alive));
            }
            was_printing = is_printing;
        }
    }

    /// Brings the reports together at rank 0, and lets nobody leave before all have said theirs.
    pub fn end(&self, cx: &Arc<Context>, report: &mut Report) {
        if let Some(why) = cx.cancel.why() {
            let reason = report.failures.first().map_or("it was told to stop", |failure| &failure.reason);
            self.stop_all(why, format!("rank {} on {} stopped: {reason}", self.rank(), node()));
        }
        let most = if cx.cancel.is_set() { GRACE } else { self.team.silence };
        if self.leads() {
            let all = self.team.transport.ranks() as usize - 1;
            self.ending.store(true, Ordering::Relaxed);
            self.wait(most, |desk| desk.reports.len() == all);
            let mut reports = std::mem::take(&mut self.desk().reports);
            reports.sort_by_key(|(rank, _)| *rank);
            // Of a run that was stopped before, nobody expects that all of it is known.
            let expected = report.ending == Ending::Complete || !cx.cancel.is_set();
            for rank in self.others().filter(|rank| expected && reports.iter().all(|(other, _)| other != rank)) {
                self.team.transport.hurry();
                report.fail(&Error::new(ErrorKind::Broken, "work together").because(format!("rank {rank} did not report")));
            }
            reports.into_iter().for_each(|(_, other)| *report += other);
            self.others().for_each(|rank| self.try_send(rank, &Message::Bye));
            cx.out.observer.flush(most);
        } else {
            // Rank 0 does not wait for longer: its terminal may be stopped.
            cx.out.observer.flush(most / 2);
            self.try_send(0, &Message::Report(counts::encode(report)));
            // Rank 0 waits for all reports, or for its terminal, and shows that it is alive.
            let began = Instant::now();
            let mut is_lost = false;
            while !self.desk().bye && !is_lost {
                self.wait(Duration::from_secs(1).min(most), |desk| desk.bye);
                let heard = self.desk().heard.get(&0).map_or(began, |heard| heard.at.max(began));
                is_lost = heard.elapsed() >= most || cx.cancel.is_set() && began.elapsed() >= most;
            }
            if !self.desk().bye && !cx.cancel.is_set() {
                let e = Error::new(ErrorKind::Broken, "work together");
                let e = e.because(format!("rank 0 has not confirmed the report of rank {} within {} s", self.rank(), most.as_secs()));
                let e = e.hint("run the same command again: what has been done is found");
                self.team.transport.hurry();
                report.fail(&e);
                cx.out.observer.on(&Event::Failed { error: &e, kind: Kind::Unknown });
            }
        }
        let desk = self.desk();
        self.over.store(true, Ordering::Release);
        drop(desk);
        self.news.notify_all();
        // Wakes the receiver, which looks once a second anyway.
        self.try_send(self.rank(), &Message::Bye);
        if let Some(receiver) = lock(&self.receiver).take() {
            let _ = receiver.join();
        }
        if let Some(beater) = lock(&self.beater).take() {
            let _ = beater.join();
        }
    }

    fn wait(&self, most: Duration, until: impl Fn(&Desk) -> bool) {
        let desk = self.news.wait_timeout_while(self.desk(), most, |desk| !until(desk));
        drop(desk.unwrap_or_else(PoisonError::into_inner));
    }
}
