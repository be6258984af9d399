//! One front-end (a VMM such as QEMU): its messages, and what they set up.
//!
//! Messages are handled one after the other on a thread of its own. Queues run elsewhere ([`Run`]); a message that stops one
//! waits until the device has ended its requests. The crate `vhost` parses messages and checks their form; here their values are
//! checked. Source: QEMU, docs/interop/vhost-user.rst.

use super::chain::Map;
use super::config::{CONFIG_WCE, EVENT_INDEX, FLUSH, PROTOCOL_FEATURES, QUEUE_SIZE_MAX, QUEUES_MAX, WCE_OFFSET};
use super::inflight::Inflight;
use super::queue::{Common, Run};
use crate::apart;
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use stria_block::RemoteDevice;
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::*;
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use virtio_queue::{Queue, QueueT};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryRegion, GuestRegionMmap};

/// As many regions as QEMU makes of memory that is plugged in piece by piece.
const MEMORY_SLOTS_MAX: usize = 509;

/// A refusal in words. It ends the connection, and is logged.
fn refused(words: impl Into<String>) -> Error {
    Error::ReqHandlerError(io::Error::other(words.into()))
}

/// The set-up of a queue, before it runs.
#[derive(Clone, Copy, Default)]
struct Setup {
    size: u16,
    /// Descriptors, available ring, used ring: addresses in the front-end.
    addresses: Option<(u64, u64, u64)>,
}

/// The state of a connection.
pub(super) struct Frontend {
    common: Arc<Common>,
    device: Arc<dyn RemoteDevice>,
    features: u64,
    setups: Vec<Setup>,
    regions: Vec<VhostUserMemoryRegion>,
    map: Map,
    inflight: Option<Inflight>,
    /// Whether the driver takes the write cache to be on. `None` means that an earlier server may have told the driver. Then the
    /// cache counts as off.
    write_cache: Option<bool>,
}

impl Frontend {
    pub fn new(common: Arc<Common>, device: Arc<dyn RemoteDevice>) -> Self {
        let setups = vec![Setup::default(); common.queues.len()];
        let (features, regions, map) = (0, Vec::new(), Map::new());
        Self { common, device, features, setups, regions, map, inflight: None, write_cache: None }
    }

    fn index(&self, index: u32) -> Result<usize> {
        let index = index as usize;
        if index < self.setups.len() { Ok(index) } else { Err(refused(format!("there is no queue {index}"))) }
    }

    /// The set-up of a queue. A queue that runs is refused.
    fn setup(&mut self, index: u32) -> Result<&mut Setup> {
        let index = self.index(index)?;
        match self.common.queues[index].is_running() {
            false => Ok(&mut self.setups[index]),
            true => Err(refused(format!("queue {index} runs and cannot be set up"))),
        }
    }

    fn stop(&self, index: usize) -> u16 {
        let line = &self.common.queues[index];
        line.stop();
        if line.is_running() {
            self.common.poke();
        }
        line.wait()
    }

    fn stop_all(&self) {
        self.common.queues.iter().for_each(|line| line.stop());
        self.common.poke();
        self.common.queues.iter().for_each(|line| {
            line.wait();
        });
    }

    fn set_write_cache(&mut self, on: bool) {
        self.write_cache = Some(on);
        if let Some(inflight) = &self.inflight {
            inflight.set_write_cache(on);
        }
        self.set_writes_through();
    }

    /// Drivers without either feature flush nothing, so their writes are durable when they end.
    fn set_writes_through(&self) {
        let cached = match self.features & CONFIG_WCE != 0 {
            true => self.write_cache.unwrap_or(false),
            false => self.features & FLUSH != 0,
        };
        self.common.writes_through.store(!cached, Ordering::SeqCst);
    }

    fn use_memory(&mut self, map: Map, regions: Vec<VhostUserMemoryRegion>) {
        (self.map, self.regions) = (map, regions);
        self.common.set_memory(self.map.clone());
        self.common.poke();
    }

    /// The address in the virtual machine's memory of an address of the front-end.
    fn translate(&self, address: u64) -> Result<GuestAddress> {
        let region = self.regions.iter().find(|region| {
            let offset = address.checked_sub(region.user_addr);
            offset.is_some_and(|offset| offset < region.memory_size)
        });
        let region = region.ok_or_else(|| refused("a ring is outside of the shared memory"))?;
        Ok(GuestAddress(address - region.user_addr + region.guest_phys_addr))
    }

    fn start(&mut self, index: usize, kick: OwnedFd) -> Result<()> {
        let Setup { size, addresses } = self.setups[index];
        let (descriptors, available, used) =
            addresses.ok_or_else(|| refused(format!("queue {index} is started without addresses")))?;
        let odd = |error: virtio_queue::Error| refused(format!("queue {index} is invalid: {error}"));
        let mut queue = Queue::new(QUEUE_SIZE_MAX).map_err(odd)?;
        queue.try_set_size(size).map_err(odd)?;
        queue.try_set_desc_table_address(self.translate(descriptors)?).map_err(odd)?;
        queue.try_set_avail_ring_address(self.translate(available)?).map_err(odd)?;
        queue.try_set_used_ring_address(self.translate(used)?).map_err(odd)?;
        queue.set_event_idx(self.features & EVENT_INDEX != 0);
        queue.set_ready(true);
        if !queue.is_valid(&self.map) {
            return Err(refused(format!("the rings of queue {index} extend beyond the shared memory")));
        }
        let used_index = queue.used_idx(&self.map, Ordering::Acquire).map_err(odd)?.0;
        let available_index = queue.avail_idx(&self.map, Ordering::Acquire).map_err(odd)?.0;
        queue.set_next_used(used_index);
        let line = &self.common.queues[index];
        queue.set_next_avail(line.wait());
        let mut again = Vec::new();
        let mut inflight = None;
        if let Some(memory) = &self.inflight {
            let mut ring = memory
                .ring(index as u16, size)
                .ok_or_else(|| refused(format!("the memory for requests in flight has no place for queue {index}")))?;
            again = ring.recover(size, used_index);
            if again.len() > usize::from(available_index.wrapping_sub(used_index)) {
                // The driver has begun anew since: its ring holds fewer requests than are marked.
                again.drain(..).for_each(|head| ring.end(head, used_index));
            }
            queue.set_next_avail(used_index.wrapping_add(again.len() as u16));
            inflight = Some(ring);
        }
        let kick = Arc::new(kick);
        let run = Run::new(Arc::clone(&self.common), index, kick, queue, inflight, again);
        let Err(run) = self.device.take_in(Box::new(run)) else { return Ok(()) };
        let (device, wake) = (Arc::clone(&self.device), Arc::clone(&line.wake));
        let spawned = thread::Builder::new().name(format!("vhost-{index}")).stack_size(256 << 10).spawn(move || {
            if let Err(error) = apart::live(run, device, &wake) {
                log::error!("a queue of a vhost-user client ended: {error}");
            }
        });
        spawned.map(|_| ()).map_err(|error| refused(format!("no thread could be started for queue {index}: {error}")))
    }

    fn region(region: &VhostUserMemoryRegion, file: File) -> Result<GuestRegionMmap<()>> {
        let end = region.mmap_offset.checked_add(region.memory_size);
        let has = end.is_some_and(|end| file.metadata().is_ok_and(|file| file.is_file() && file.len() >= end));
        let len = usize::try_from(region.memory_size).ok().filter(|_| has).ok_or_else(|| {
            refused("shared memory extends beyond its file; use memory-backend-memfd or memory-backend-file with share=on")
        })?;
        let file = FileOffset::new(file, region.mmap_offset);
        GuestRegionMmap::from_range(GuestAddress(region.guest_phys_addr), len, Some(file))
            .map_err(|error| refused(format!("shared memory cannot be mapped: {error}")))
    }
}

impl Drop for Frontend {
    /// What the device has runs to its end, and the driver is told: a front-end that comes back finds its rings in order.
    fn drop(&mut self) {
        self.stop_all();
    }
}

/// An eventfd that never blocks.
fn event(file: File) -> Result<OwnedFd> {
    let link = rustix::fs::readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new());
    if !link.is_ok_and(|link| link.to_bytes() == b"anon_inode:[eventfd]") {
        return Err(refused("a file for notifications is not an eventfd"));
    }
    let nonblocking = rustix::fs::fcntl_getfl(&file).and_then(|flags| rustix::fs::fcntl_setfl(&file, flags | OFlags::NONBLOCK));
    nonblocking.map_err(|error| refused(format!("an eventfd cannot be used: {error}")))?;
    Ok(file.into())
}

impl VhostUserBackendReqHandlerMut for Frontend {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.reset_device()
    }

    fn reset_device(&mut self) -> Result<()> {
        self.stop_all();
        for line in &self.common.queues {
            line.set_enabled(false);
            line.set_base(0);
            line.set_call(None);
        }
        self.setups.fill(Setup::default());
        self.features = 0;
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.common.facts.features())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        let odd = features & !self.common.facts.features_ever();
        if odd != 0 {
            return Err(refused(format!("features {odd:#x} are never on offer")));
        }
        self.features = features;
        if features & PROTOCOL_FEATURES == 0 {
            self.common.queues.iter().for_each(|line| line.set_enabled(true));
        }
        self.set_writes_through();
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy_listening: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        let mut mapped =
            regions.iter().zip(files).map(|(region, file)| Self::region(region, file)).collect::<Result<Vec<_>>>()?;
        mapped.sort_by_key(GuestMemoryRegion::start_addr);
        let map = Map::from_regions(mapped).map_err(|error| refused(format!("the shared memory is invalid: {error}")))?;
        self.use_memory(map, regions.to_vec());
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let size = u16::try_from(num).ok().filter(|size| size.is_power_of_two() && *size <= QUEUE_SIZE_MAX);
        let size = size.ok_or_else(|| refused(format!("invalid queue size {num}: a power of two up to {QUEUE_SIZE_MAX}")))?;
        self.setup(index)?.size = size;
        Ok(())
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        self.setup(index)?.addresses = Some((descriptor, available, used));
        Ok(())
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let base = u16::try_from(base).map_err(|_| refused(format!("a ring has no position {base}")))?;
        self.setup(index)?;
        self.common.queues[self.index(index)?].set_base(base);
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let base = self.stop(self.index(index)?);
        Ok(VhostUserVringState::new(index, u32::from(base)))
    }

    fn set_vring_kick(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let index = self.index(u32::from(index))?;
        let kick = event(fd.ok_or_else(|| refused("queues that are polled are not served"))?)?;
        self.stop(index);
        self.start(index, kick)
    }

    fn set_vring_call(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let index = self.index(u32::from(index))?;
        self.common.queues[index].set_call(fd.map(event).transpose()?);
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let index = self.index(u32::from(index))?;
        self.common.queues[index].set_error(fd.map(event).transpose()?);
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD
            | VhostUserProtocolFeatures::RESET_DEVICE
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS)
    }

    fn set_protocol_features(&mut self, features: u64) -> Result<()> {
        let odd = features & !self.get_protocol_features()?.bits();
        if odd == 0 { Ok(()) } else { Err(refused(format!("protocol features {odd:#x} were not on offer"))) }
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(u64::from(QUEUES_MAX))
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.common.queues[self.index(index)?].set_enabled(enable);
        self.common.poke();
        Ok(())
    }

    fn get_config(&mut self, offset: u32, size: u32, _flags: VhostUserConfigFlags) -> Result<Vec<u8>> {
        let write_cache = self.write_cache.unwrap_or(true);
        self.set_write_cache(write_cache);
        Ok(self.common.facts.config(offset as usize, size as usize, write_cache))
    }

    fn set_config(&mut self, offset: u32, bytes: &[u8], _flags: VhostUserConfigFlags) -> Result<()> {
        let [on] = bytes else { return Err(refused("a driver may set only the write cache")) };
        if offset as usize != WCE_OFFSET {
            return Err(refused("a driver may set only the write cache"));
        }
        self.set_write_cache(*on != 0);
        Ok(())
    }

    fn get_inflight_fd(&mut self, wanted: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        let VhostUserInflight { num_queues, queue_size, .. } = *wanted;
        if num_queues > QUEUES_MAX || queue_size > QUEUE_SIZE_MAX {
            return Err(refused(format!(
                "{num_queues} queues of size {queue_size}: the most are {QUEUES_MAX} of {QUEUE_SIZE_MAX}"
            )));
        }
        let (inflight, file, bytes) = Inflight::new(num_queues, queue_size).map_err(Error::ReqHandlerError)?;
        if let Some(on) = self.write_cache {
            inflight.set_write_cache(on);
        }
        Ok((VhostUserInflight::new(bytes, 0, num_queues, queue_size), file))
    }

    fn set_inflight_fd(&mut self, given: &VhostUserInflight, file: File) -> Result<()> {
        let VhostUserInflight { mmap_size, mmap_offset, num_queues, queue_size } = *given;
        if self.common.queues.iter().any(|line| line.is_running()) {
            return Err(refused("queues run, and their requests are marked in other memory"));
        }
        let inflight = Inflight::open(file, mmap_offset, mmap_size, num_queues.min(QUEUES_MAX), queue_size);
        let inflight = inflight.map_err(Error::ReqHandlerError)?;
        let stored = inflight.write_cache();
        self.inflight = Some(inflight);
        if let Some(on) = stored.or(self.write_cache) {
            self.set_write_cache(on);
        }
        Ok(())
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(MEMORY_SLOTS_MAX as u64)
    }

    fn add_mem_region(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        file: File,
        _postcopy_listening: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        if self.regions.len() >= MEMORY_SLOTS_MAX {
            return Err(refused(format!("more than {MEMORY_SLOTS_MAX} regions of memory")));
        }
        let mapped = Arc::new(Self::region(region, file)?);
        let map = self.map.insert_region(mapped).map_err(|error| refused(format!("the shared memory is invalid: {error}")))?;
        let regions = self.regions.iter().copied().chain([**region]).collect();
        self.use_memory(map, regions);
        Ok(None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        let (start, len) = (region.guest_phys_addr, region.memory_size);
        let (map, _) = self
            .map
            .remove_region(GuestAddress(start), len)
            .map_err(|error| refused(format!("there is no such shared memory: {error}")))?;
        let regions = self.regions.iter().copied().filter(|region| region.guest_phys_addr != start).collect();
        self.use_memory(map, regions);
        Ok(())
    }

    fn set_gpu_socket(&mut self, _backend: GpuBackend) -> Result<()> {
        Err(refused("a disk has no display"))
    }

    fn get_shared_object(&mut self, _uuid: VhostUserSharedMsg) -> Result<File> {
        Err(refused("a disk shares no objects"))
    }

    fn set_device_state_fd(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _file: File,
    ) -> Result<Option<File>> {
        Err(refused("its state is not transferred"))
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(refused("its state is not transferred"))
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(refused("a disk has no shared memory of its own"))
    }

    fn set_log_base(&mut self, _log: &VhostUserLog, _file: File) -> Result<()> {
        Err(refused("written memory is not logged, so the virtual machine cannot migrate while it runs"))
    }
}
