import { Command } from 'commander';

/**
 * A program of many commands, of which one is run: to register the options of all others takes longer than most
 * commands do. They keep their names, for those who mistype one.
 */
export class ProgramOfOne extends Command {
  readonly #wanted: string;

  constructor(name: string, wanted: string) {
    super(name);
    this.#wanted = wanted;
  }

  override createCommand(name?: string): Command {
    return name === this.#wanted ? new Command(name) : new NameOnly(name);
  }
}

class NameOnly extends Command {
  override createCommand(name?: string): Command {
    return new NameOnly(name);
  }

  override option(): this {
    return this;
  }

  override addOption(): this {
    return this;
  }

  override argument(): this {
    return this;
  }

  override arguments(): this {
    return this;
  }

  override addArgument(): this {
    return this;
  }
}
