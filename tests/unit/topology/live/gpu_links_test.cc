#include "topology/live/gpu_links.h"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdlib>

#include "drivers/nvml/nvml_api.h"
#include "tests/fakes/nvml/fake_nvml.h"
#include "tests/unit/topology/sources/made_sysfs.h"
#include "topology/sources/nccl_xml.h"

namespace gdr::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr nvml::Rc kErrorUnknown = 999;

Bdf gpu_address(int index) { return Bdf{0, static_cast<uint8_t>(0x1a + index), 0, 0}; }

NvLink to_gpu(int index, int count) { return NvLink{NvLink::To::kGpu, gpu_address(index), count}; }

NvLink to_switch(int count) { return NvLink{NvLink::To::kSwitch, std::nullopt, count}; }

Machine machine_with_gpus(int count) {
  Machine machine;
  for (int i = 0; i < count; ++i) {
    machine.gpus.push_back(Gpu{});
    machine.gpus.back().bdf = gpu_address(i);
  }
  return machine;
}

std::vector<fake_nvml::Link> links(int count, const std::string& remote) {
  return std::vector<fake_nvml::Link>(count, fake_nvml::Link{remote});
}

bool nvml_is_loaded() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library != nullptr) dlclose(library);
  return library != nullptr;
}

// On a machine without GPUs, any NVML answers every query.
TEST(GpuLinksWithoutNvml, OnlyIfLoaded_IsNotLoadedAndNothingIsKnown) {
  Machine nothing;
  EXPECT_FALSE(add_gpu_links(&nothing, LoadNvml::kOnlyIfLoaded));
  EXPECT_FALSE(nothing.gpu_links_known);
}

TEST(GpuLinksWithoutNvml, Load_IsAskedAndUnloaded) {
  if (std::getenv("LD_LIBRARY_PATH") == nullptr) GTEST_SKIP() << "CTest sets LD_LIBRARY_PATH";
  Machine nothing;
  EXPECT_TRUE(add_gpu_links(&nothing, LoadNvml::kYes));
  EXPECT_FALSE(nvml_is_loaded());
}

// The clouds' files have no <gpu>, or one without links, which NCCL fills in.
TEST(GpuLinksWithoutNvml, LinksOfAFile_AreKnownWhereItStatesSome) {
  const std::pair<const char*, bool> cases[] = {
      {"<gpu sm='90'><nvlink target='0000:1b:00.0' count='1' tclass='0x068000'/></gpu>", true},
      {"<gpu sm='90'/>", false},
      {"", false}};
  for (const auto& [element, known] : cases) {
    auto machine = nccl_xml_text(
        std::string("<system><cpu numaid='0'><pci busid='0000:1a:00.0' class='0x030200'>") +
        element + "</pci></cpu></system>");
    ASSERT_TRUE(machine.has_value()) << machine.error().text;
    ASSERT_EQ(machine->gpus.size(), 1u);
    EXPECT_EQ(machine->gpu_links_known, known);
    EXPECT_FALSE(add_gpu_links(&*machine, LoadNvml::kOnlyIfLoaded));
    EXPECT_EQ(machine->gpu_links_known, known);
  }
}

class GpuLinks : public MadeSysfs {
 protected:
  void SetUp() override {
    MadeSysfs::SetUp();
    library_ = dlopen(FAKE_NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    auto state = reinterpret_cast<decltype(&fake_nvml_state)>(dlsym(library_, "fake_nvml_state"));
    ASSERT_NE(state, nullptr);
    nvml_ = state();
    *nvml_ = fake_nvml::State{};
  }
  void TearDown() override {
    EXPECT_EQ(nvml_->users, 0);
    *nvml_ = fake_nvml::State{};
    dlclose(library_);
    MadeSysfs::TearDown();
  }
  // GPU i of the machine, as NVML shows it.
  fake_nvml::Gpu& show(int index, int capability, std::vector<fake_nvml::Link> links) {
    std::string bus_id = gpu_address(index).to_string();
    nvml_->gpus.push_back({.bus_id = bus_id, .capability = capability, .links = std::move(links)});
    return nvml_->gpus.back();
  }
  void show_function(const std::string& bus_id, const std::string& class_code) {
    std::string path = "pci0000:00/" + bus_id;
    device(path, "pci");
    write("devices/" + path + "/class", class_code + "\n");
    link("bus/pci/devices/" + bus_id, "devices/" + path);
  }
  bool add(Machine* machine) { return add_gpu_links(machine, LoadNvml::kOnlyIfLoaded, root_); }

  void* library_ = nullptr;
  fake_nvml::State* nvml_ = nullptr;
};

TEST_F(GpuLinks, Remote_IsASwitchAGpuOrTheCpuByItsClass) {
  // Topology files that NCCL writes have links to GPUs that are not of the machine, too.
  show_function(gpu_address(1).to_string(), "0x030200");
  show_function("0004:00:00.1", "0x068001");  // the bridge of the Power CPU
  const std::pair<const char*, NvLink> cases[] = {
      {"0000:C1:00.0", to_switch(3)},     // not visible, as in a virtual machine
      {"fffffff:ffff:ff", to_switch(3)},  // where NVML gives no address
      {"0000:1B:00.0", to_gpu(1, 3)},
      {"0004:00:00.1", NvLink{NvLink::To::kCpu, std::nullopt, 3}}};
  for (const auto& [remote, link] : cases) {
    Machine machine = machine_with_gpus(1);
    nvml_->gpus.clear();
    show(0, 70, links(3, remote));
    EXPECT_TRUE(add(&machine));
    EXPECT_THAT(machine.gpus[0].nvlinks, ElementsAre(link)) << remote;
  }
}

TEST_F(GpuLinks, AllOverSwitches_AreOneEntry) {
  Machine machine = machine_with_gpus(2);
  show_function("0000:c1:00.0", "0x068000");
  show_function("0000:c2:00.0", "0x068000");
  for (int i = 0; i < 2; ++i) {
    show(i, 80, links(6, "0000:C1:00.0"));
    for (auto& link : links(6, "0000:C2:00.0")) nvml_->gpus[i].links.push_back(link);
  }
  EXPECT_TRUE(add(&machine));
  EXPECT_TRUE(machine.gpu_links_known);
  EXPECT_THAT(machine.gpus[0].nvlinks, ElementsAre(to_switch(12)));
  EXPECT_THAT(machine.gpus[1].nvlinks, ElementsAre(to_switch(12)));
  EXPECT_EQ(machine.gpus[0].c2c_links, 0);
}

TEST_F(GpuLinks, LinksBetweenGpus_NameThem) {
  Machine machine = machine_with_gpus(3);
  show(0, 70, links(2, "0000:1B:00.0")).links.push_back(fake_nvml::Link{"0000:1C:00.0"});
  show(1, 70, links(2, "0000:1A:00.0"));
  show(2, 70, links(1, "0000:1A:00.0"));
  EXPECT_TRUE(add(&machine));
  EXPECT_THAT(machine.gpus[0].nvlinks, ElementsAre(to_gpu(1, 2), to_gpu(2, 1)));
  EXPECT_THAT(machine.gpus[1].nvlinks, ElementsAre(to_gpu(0, 2)));
  EXPECT_THAT(machine.gpus[2].nvlinks, ElementsAre(to_gpu(0, 1)));
}

TEST_F(GpuLinks, LinkThatIsDownOrWithoutP2p_IsNotCounted) {
  for (int capability : {80, 90}) {
    Machine machine = machine_with_gpus(2);
    nvml_->gpus.clear();
    show(0, capability, links(4, "0000:1B:00.0"));
    show(1, capability, links(1, "0000:1A:00.0"));
    nvml_->gpus[0].links[0].active = false;
    nvml_->gpus[0].links[2].p2p = false;
    nvml_->gpus[1].links[0].active = false;
    EXPECT_TRUE(add(&machine));
    EXPECT_THAT(machine.gpus[0].nvlinks, ElementsAre(to_gpu(1, 2))) << capability;
    EXPECT_THAT(machine.gpus[1].nvlinks, IsEmpty()) << capability;
  }
}

TEST_F(GpuLinks, C2cLinks_AreCountedWhereUp) {
  Machine machine = machine_with_gpus(1);
  show(0, 90, {}).c2c_links = {{}, {.up = false}, {}, {.has_bandwidth = false}, {}};
  EXPECT_TRUE(add(&machine));
  EXPECT_EQ(machine.gpus[0].c2c_links, 3);
  EXPECT_EQ(machine.gpus[0].c2c_mb_per_s, 44712);
  EXPECT_EQ(machine.gpus[0].compute_capability, 90);
  EXPECT_TRUE(machine.gpu_links_known);
  EXPECT_THAT(machine.gpus[0].nvlinks, IsEmpty());
}

// The fake has three quarters of it free.
TEST_F(GpuLinks, Bar1_IsKnownWhereNvmlShowsIt) {
  Machine machine = machine_with_gpus(2);
  show(0, 90, {}).bar1_bytes = 256 << 20;
  show(1, 90, {});
  EXPECT_TRUE(add(&machine));
  EXPECT_EQ(machine.gpus[0].bar1_bytes, uint64_t{256} << 20);
  EXPECT_EQ(machine.gpus[1].bar1_bytes, 0u);
}

TEST_F(GpuLinks, LinksThatAreKnown_StayAsTheyAre) {
  Machine machine = machine_with_gpus(2);
  machine.gpus[0].nvlinks = {to_gpu(1, 4)};
  machine.gpus[1].c2c_links = 10;
  for (int i = 0; i < 2; ++i) show(i, 90, links(18, "0000:C1:00.0")).c2c_links.resize(5);
  EXPECT_TRUE(add(&machine));
  EXPECT_THAT(machine.gpus[0].nvlinks, ElementsAre(to_gpu(1, 4)));
  EXPECT_EQ(machine.gpus[0].c2c_links, 5);
  EXPECT_THAT(machine.gpus[1].nvlinks, ElementsAre(to_switch(18)));
  EXPECT_EQ(machine.gpus[1].c2c_links, 10);
}

TEST_F(GpuLinks, GpuThatNvmlDoesNotShow_StaysAsItWas) {
  for (bool known : {false, true}) {
    Machine machine = machine_with_gpus(2);
    machine.gpu_links_known = known;
    nvml_->gpus.clear();
    show(1, 90, links(18, "0000:C1:00.0"));
    EXPECT_FALSE(add(&machine));
    EXPECT_EQ(machine.gpu_links_known, known);
    EXPECT_THAT(machine.gpus[0].nvlinks, IsEmpty());
    EXPECT_THAT(machine.gpus[1].nvlinks, ElementsAre(to_switch(18)));
  }
}

TEST_F(GpuLinks, CallThatFailsOfOneGpu_LeavesTheOthersTheirLinks) {
  for (const char* function :
       {"nvmlDeviceGetHandleByPciBusId", "nvmlDeviceGetCudaComputeCapability",
        "nvmlDeviceGetNvLinkCapability", "nvmlDeviceGetNvLinkRemotePciInfo",
        "nvmlDeviceGetFieldValues"}) {
    Machine machine = machine_with_gpus(2);
    nvml_->gpus.clear();
    show(0, 90, links(18, "0000:C1:00.0")).failing[function] = kErrorUnknown;
    show(1, 90, links(18, "0000:C1:00.0"));
    EXPECT_FALSE(add(&machine)) << function;
    EXPECT_FALSE(machine.gpu_links_known) << function;
    EXPECT_THAT(machine.gpus[0].nvlinks, IsEmpty()) << function;
    EXPECT_THAT(machine.gpus[1].nvlinks, ElementsAre(to_switch(18))) << function;
  }
}

// An old driver does not know the fields: NCCL counts no links either.
TEST_F(GpuLinks, OldDriverOrNvmlThatDoesNotStart_HasNoLinks) {
  Machine machine = machine_with_gpus(1);
  show(0, 90, links(18, "0000:C1:00.0")).failing["nvmlDeviceGetFieldValues"] =
      nvml::kErrorNotSupported;
  EXPECT_TRUE(add(&machine));
  EXPECT_THAT(machine.gpus[0].nvlinks, IsEmpty());
  nvml_->gpus[0].failing.clear();
  nvml_->init_returns = nvml::kErrorDriverNotLoaded;
  EXPECT_FALSE(add(&machine));
  EXPECT_THAT(machine.gpus[0].nvlinks, IsEmpty());
}

}  // namespace
}  // namespace gdr::topology
