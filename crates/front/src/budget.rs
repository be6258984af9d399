//! The memory of all clients together.
//!
//! Half of it is divided: each connection has a *share* of its own, so a request that fits into it never waits for other
//! clients. The other half is lent in the order of requests. While a connection waits for a loan, no other connection keeps
//! more than it uses, and a connection with a loan queues again behind the others.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// 1 MiB: the smallest loan if no other connection waits, so that a deep queue asks seldom.
const LOAN_BYTES_MIN: usize = 1 << 20;

/// 4 KiB: the memory of a request besides data: its entries in tables and queues, and an error message.
pub const CHARGE_BYTES_MIN: usize = 4 << 10;

/// The memory that is lent, and the connections that wait for a loan.
#[derive(Debug)]
pub struct Budget {
    lent_max: usize,
    lent: AtomicUsize,
    /// Numbers of the leases that wait, the next to be served first.
    queue: Mutex<VecDeque<u64>>,
    /// Length of the queue.
    waiting: AtomicUsize,
    lease_count: AtomicU64,
}

impl Budget {
    pub fn new(lent_max: usize) -> Arc<Self> {
        Arc::new(Self {
            lent_max,
            lent: AtomicUsize::new(0),
            queue: Mutex::default(),
            waiting: AtomicUsize::new(0),
            lease_count: AtomicU64::new(0),
        })
    }

    /// A lease for one connection, whose share is `share` bytes.
    pub fn lease(self: &Arc<Self>, share: usize) -> Lease {
        let number = self.lease_count.fetch_add(1, Ordering::Relaxed);
        Lease { budget: Arc::clone(self), number, share, loan: 0, waits: false, waits_first: false }
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<u64>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lend(&self, bytes: usize) -> bool {
        let fits = |lent: usize| lent.checked_add(bytes).filter(|&lent| lent <= self.lent_max);
        self.lent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }
}

/// The memory that one connection may hold.
#[derive(Debug)]
pub struct Lease {
    budget: Arc<Budget>,
    number: u64,
    share: usize,
    loan: usize,
    waits: bool,
    /// It has begun to wait while no other lease did.
    waits_first: bool,
}

impl Lease {
    /// Bytes that the connection may hold now.
    pub fn bytes(&self) -> usize {
        self.share + self.loan
    }

    /// Borrows the memory that it lacks for `bytes`. False if it must wait for its turn: then ask again.
    pub fn reach(&mut self, bytes: usize) -> bool {
        let Some(missing) = bytes.checked_sub(self.bytes()).filter(|&missing| missing > 0) else {
            self.withdraw();
            return true;
        };
        let mut queue = self.budget.queue();
        let first = queue.front().is_none_or(|&first| first == self.number);
        // No more than is needed while others wait.
        let handsome = if queue.len() > usize::from(self.waits) { missing } else { missing.max(LOAN_BYTES_MIN) };
        let loan = [handsome, missing].into_iter().find(|&loan| first && self.budget.lend(loan));
        match loan {
            Some(loan) => self.loan += loan,
            None if !self.waits => {
                self.waits_first = queue.is_empty();
                queue.push_back(self.number);
                self.waits = true;
            }
            None => {}
        }
        self.budget.waiting.store(queue.len(), Ordering::Relaxed);
        drop(queue);
        if loan.is_some() {
            self.withdraw();
        }
        loan.is_some()
    }

    /// True if it waits for its turn to borrow.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// True once after it has begun to wait while no other lease did: owners of loans may sleep, and should look.
    pub fn begins_queue(&mut self) -> bool {
        std::mem::take(&mut self.waits_first)
    }

    /// True if it has more than its share.
    pub fn is_borrowing(&self) -> bool {
        self.loan > 0
    }

    /// True if others wait for memory, and it has borrowed some.
    pub fn is_wanted(&self) -> bool {
        self.loan > 0 && self.budget.waiting.load(Ordering::Relaxed) > 0
    }

    /// Returns the memory that is not needed for `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        let loan = bytes.saturating_sub(self.share).min(self.loan);
        self.budget.lent.fetch_sub(self.loan - loan, Ordering::Relaxed);
        self.loan = loan;
    }

    /// Leaves the queue: it needs no more than it has.
    pub fn withdraw(&mut self) {
        if std::mem::take(&mut self.waits) {
            let mut queue = self.budget.queue();
            queue.retain(|&number| number != self.number);
            self.budget.waiting.store(queue.len(), Ordering::Relaxed);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.withdraw();
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn a_share_is_there_whatever_others_borrow() {
        let budget = Budget::new(8 * MIB);
        let mut greedy = budget.lease(MIB);
        assert!(greedy.reach(9 * MIB) && !greedy.reach(9 * MIB + 1));
        let mut modest = budget.lease(MIB);
        assert!(modest.reach(MIB) && !modest.reach(MIB + 1));
        drop(greedy);
        assert!(modest.reach(9 * MIB));
    }

    #[test]
    fn loans_are_first_come_first_served() {
        let budget = Budget::new(8 * MIB);
        let [mut holder, mut large, mut small] = [0; 3].map(|_| budget.lease(0));
        assert!(holder.reach(8 * MIB) && !holder.is_wanted());
        assert!(!large.reach(8 * MIB) && !small.reach(4096));
        assert!(large.begins_queue() && !large.begins_queue() && !small.begins_queue());
        assert!(holder.is_wanted());
        holder.shrink_to(MIB);
        assert!(!small.reach(4096), "the large one was first");
        assert!(!holder.reach(2 * MIB), "and the holder queues up like the others");
        holder.shrink_to(0);
        assert!(large.reach(8 * MIB));
        assert!(!small.reach(4096));
        large.shrink_to(0);
        assert!(small.reach(4096), "the next in the queue");
        drop(small);
        assert!(holder.reach(2 * MIB) && !holder.is_wanted());
    }

    #[test]
    fn those_that_leave_the_queue_hold_nobody_up() {
        let budget = Budget::new(MIB);
        let [mut holder, mut gone, mut content, mut next] = [0; 4].map(|_| budget.lease(4096));
        assert!(holder.reach(MIB));
        assert!(!gone.reach(MIB) && !content.reach(MIB) && !next.reach(MIB));
        drop(gone);
        assert!(content.reach(4096) && !content.waits(), "its share does now");
        drop(holder);
        assert!(next.reach(MIB));
    }

    proptest! {
        #[test]
        fn no_more_is_lent_than_there_is_and_all_comes_back(
            steps in prop::collection::vec((0usize..6, 0usize..12 * MIB, any::<bool>()), 1..200),
        ) {
            let budget = Budget::new(8 * MIB);
            let mut leases: Vec<Lease> = (0..6).map(|_| budget.lease(MIB / 2)).collect();
            for (which, bytes, grows) in steps {
                let lease = &mut leases[which];
                match grows {
                    true => prop_assert!(!lease.reach(bytes) || lease.bytes() >= bytes),
                    false => lease.shrink_to(bytes),
                }
                let lent: usize = leases.iter().map(|lease| lease.loan).sum();
                prop_assert_eq!(lent, budget.lent.load(Ordering::Relaxed));
                prop_assert!(lent <= 8 * MIB);
            }
            drop(leases);
            prop_assert_eq!(budget.lent.load(Ordering::Relaxed), 0);
            prop_assert!(budget.queue().is_empty());
        }
    }
}
