// Search on the server for lines that are not loaded; a newer query cancels the previous one.

const PATIENCE = 250;

export class ServerSearch {
  constructor(find) {
    this.find = find;
    this.requestNumber = 0;
    this.isLooking = false;
    this.hasFailed = false;
  }

  stop() {
    this.requestNumber += 1;
    this.isLooking = false;
    this.hasFailed = false;
    clearTimeout(this.timer);
  }

  // Hands out numbers as they come, when the reader has stopped typing.
  ask(conditions, take) {
    this.stop();
    const { requestNumber } = this;
    this.isLooking = true;
    this.timer = setTimeout(() => this.run(conditions, take, requestNumber), PATIENCE);
  }

  // Everything at once, for a question that no typing can overtake.
  async all(conditions) {
    const numbers = [];
    for (let after = 0; after !== null; ) {
      const page = await this.find(conditions, after);
      numbers.push(...page.numbers);
      after = page.next;
    }
    return numbers;
  }

  async run(conditions, take, requestNumber) {
    try {
      for (let after = 0; after !== null; ) {
        const page = await this.find(conditions, after);
        if (requestNumber !== this.requestNumber) return;
        after = page.next;
        this.isLooking = after !== null;
        take(page.numbers);
      }
    } catch {
      if (requestNumber !== this.requestNumber) return;
      this.isLooking = false;
      this.hasFailed = true;
      take([]);
    }
  }
}
