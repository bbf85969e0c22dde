#include "server/front_door/header_blocks.h"

#include <gtest/gtest.h>

namespace lodgekv::server {
namespace {

constexpr uint64_t kFrame = 16 * kKiB;  // the largest

class HeaderBlocksTest : public ::testing::Test {
 protected:
  using Piece = HeaderBlocks::Piece;

  // Pieces that are parsed, of a block whose end never comes; no more than 10,000.
  uint64_t Endless(const void* parser, uint64_t bytes) {
    uint64_t parsed = 0;
    for (int i = 0; i < 10'000; ++i) {
      blocks_.BeginFrame(parser, false);
      parsed += blocks_.Add(parser, bytes, true) == Piece::kParse;
    }
    return parsed;
  }

  HeaderBlocks blocks_;
  const int a_ = 0, b_ = 0;  // parsers
};

TEST_F(HeaderBlocksTest, KeepsNothingOfABlockInOnePiece) {
  for (int i = 0; i < 1'000; ++i) {
    blocks_.BeginFrame(&a_, true);
    ASSERT_EQ(blocks_.Add(&a_, kMaxMetadataSize, true), Piece::kParse);
    ASSERT_EQ(blocks_.size(), 0) << i;
  }
}

TEST_F(HeaderBlocksTest, ABlockEndsWithItsLastFrame) {
  for (int i = 0; i < 1'000; ++i) {
    blocks_.BeginFrame(&a_, false);
    ASSERT_EQ(blocks_.Add(&a_, kFrame, true), Piece::kParse) << i;
    ASSERT_EQ(blocks_.size(), 1);
    blocks_.BeginFrame(&a_, true);
    ASSERT_EQ(blocks_.Add(&a_, 100, false), Piece::kParse) << i;
    ASSERT_EQ(blocks_.Add(&a_, 100, true), Piece::kParse) << i;
    ASSERT_EQ(blocks_.size(), 0);
  }
}

// A frame may come in several reads, between which those of others are parsed.
TEST_F(HeaderBlocksTest, AFrameInPiecesIsOneBlock) {
  blocks_.BeginFrame(&a_, true);
  ASSERT_EQ(blocks_.Add(&a_, 100, false), Piece::kParse);
  blocks_.BeginFrame(&b_, true);
  ASSERT_EQ(blocks_.Add(&b_, 100, true), Piece::kParse);
  EXPECT_EQ(blocks_.size(), 1);
  ASSERT_EQ(blocks_.Add(&a_, 100, true), Piece::kParse);
  EXPECT_EQ(blocks_.size(), 0);
}

TEST_F(HeaderBlocksTest, ABlockWithoutEndIsNotParsed) {
  EXPECT_EQ(Endless(&a_, kFrame), HeaderBlocks::kMaxSize / kFrame);
  EXPECT_EQ(blocks_.too_large(), 1);
  EXPECT_EQ(Endless(&b_, kFrame), HeaderBlocks::kMaxSize / kFrame);
  EXPECT_EQ(blocks_.too_large(), 2);
}

// Its connection, too: what of it was not parsed may have changed the table of headers.
TEST_F(HeaderBlocksTest, TheEndOfABlockThatWasTooLargeIsTheEnd) {
  Endless(&a_, kFrame);
  blocks_.BeginFrame(&a_, true);
  EXPECT_EQ(blocks_.Add(&a_, 0, false), Piece::kDrop);
  EXPECT_EQ(blocks_.Add(&a_, 0, true), Piece::kEnd);
  EXPECT_EQ(blocks_.size(), 0);
}

// Each piece has gRPC copy all before it: 60 KiB and then bytes would cost 4,000 times 60 KiB.
TEST_F(HeaderBlocksTest, SmallPiecesOfALargeBlockAreNotParsed) {
  blocks_.BeginFrame(&a_, false);
  ASSERT_EQ(blocks_.Add(&a_, 60 * kKiB, true), Piece::kParse);
  EXPECT_LT(Endless(&a_, 1), 20);
}

TEST_F(HeaderBlocksTest, TheMostMetadataMayComeInSmallPieces) {
  for (uint64_t sent = 0; sent < kMaxMetadataSize; sent += 50) {
    blocks_.BeginFrame(&a_, false);
    ASSERT_EQ(blocks_.Add(&a_, 50, true), Piece::kParse) << sent;
  }
}

// A later connection may have its parser at the same place.
TEST_F(HeaderBlocksTest, AForgottenParserHasNothing) {
  blocks_.BeginFrame(&a_, false);
  ASSERT_EQ(blocks_.Add(&a_, HeaderBlocks::kMaxSize, true), Piece::kParse);
  blocks_.Forget(&b_);
  EXPECT_EQ(blocks_.size(), 1);
  blocks_.Forget(&a_);
  EXPECT_EQ(blocks_.size(), 0);
  blocks_.BeginFrame(&a_, false);
  EXPECT_EQ(blocks_.Add(&a_, kFrame, true), Piece::kParse);
}

}  // namespace
}  // namespace lodgekv::server
